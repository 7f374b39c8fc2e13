"""Live moves between kbroker and an Apache Kafka cluster: MirrorMaker 2 copies, this room plans,
watches and verifies.

`plan` reads what there is, `prepare` makes topics, ACLs and quotas, `engine` runs MirrorMaker 2, `positions` reads how
far it is, `following` decides when clients may switch, `comparing` and `group_offsets` finish the
move.
"""

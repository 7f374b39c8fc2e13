"""Live moves between kbroker and an Apache Kafka cluster. MirrorMaker 2 copies; these modules plan,
observe and verify.

`plan` reads the source, `prepare` creates topics, ACLs and quotas, `engine` runs MirrorMaker 2,
`positions` reads its progress, `following` decides when clients may switch, `comparing` and
`group_offsets` finish the move.
"""

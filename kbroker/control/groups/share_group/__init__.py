"""Share groups (KIP-932): members and their partitions.

kbroker/control/share distributes the records of a partition.

May be called by the group coordinator, by `control.share` and by APIs of share groups. Runs in
control.
"""

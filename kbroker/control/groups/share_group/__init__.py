"""Share groups (KIP-932): members and their partitions.

kbroker/control/share distributes the records of a partition.
"""

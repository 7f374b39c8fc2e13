"""Share groups of KIP-932: who takes part and which partitions each member reads.

How the records of a partition are shared out is kbroker/control/share.
"""

"""Sharing the records of a partition among the members of a share group (KIP-932).

`share_partition.py` is the state machine of one partition in one group; its state survives in `__share_group_state`.

May be called by the trunk of control, `control.groups` and APIs. Runs in control.
"""

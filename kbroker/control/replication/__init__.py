"""Leaders and in-sync sets: the controller's decisions about replicated partitions
(docs/adr/0008).

May be called by the trunk of control, `control.changes` and APIs. Runs in control.
"""

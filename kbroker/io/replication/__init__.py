"""Local replicas in an IO worker: partitions that it leads, and partitions that it copies
(docs/adr/0008).

May be called by the trunk of io. Runs in each IO worker.
"""

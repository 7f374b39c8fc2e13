"""Local replicas in an IO worker: partitions that it leads, and partitions that it copies
(docs/adr/0008).

May be called by `io.worker`. Runs in each IO worker.
"""

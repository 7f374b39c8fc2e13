"""The append path: one compiled call drains the rings, checks and writes the batches, and completes
the answers.

May be called by the trunk of io, by `io.partition` and by `io.replication`. Runs in each IO worker.
"""

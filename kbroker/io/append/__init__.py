"""The append path: one compiled call drains the rings, checks and writes the batches, and completes
the answers.

May be called by the trunk of io, `io.log_dirs`, `io.partition`, `io.recovery` and `io.replication`.
Runs in each IO worker.
"""

"""The append path: rings are drained, batches are checked and written, answers are completed, in one compiled call.

May be called by the trunk of io, by `io.partition` and by `io.replication`. Runs in each IO worker.
"""

"""The log of one partition: segments, syncs, truncation, replica role, retention.

May be called by the trunk of io, `io.log_dirs` and `io.replication`. Runs in the partition's IO
worker.
"""

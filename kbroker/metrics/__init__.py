"""Metrics: the catalogue, and the slots in shared memory that processes count in.

Called by `api`, `cleaner`, `cli`, `control`, `http`, `io`, `ipc`, `net` and `supervisor`. Runs in
every process.
"""

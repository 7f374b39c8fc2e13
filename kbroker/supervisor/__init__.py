"""The parent process: creates shared memory, starts the child processes, restarts dead ones, stops
them in order.

Called by `cli`. Runs in the process of `kbroker serve`.
"""

"""Writing logs: the IO worker, and all files that only it may write.

Called by `cli` and `supervisor`. Runs in each IO worker.
"""

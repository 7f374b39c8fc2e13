"""Loading a log: without a scan after a clean shutdown, by a scan of possibly torn segments
after a crash.

May be called by the trunk of io and by `io.partition`. Runs in threads of each IO worker.
"""

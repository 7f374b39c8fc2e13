"""Loading a log: by its files alone after a clean stop, by a scan of what may be torn after a crash.

May be called by the trunk of io and by `io.partition`. Runs in threads of each IO worker.
"""

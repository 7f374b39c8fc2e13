"""Communication between the processes: shared memory and its layout, rings, wake-ups, messages and
links.

Called by `api`, `cleaner`, `cli`, `control`, `http`, `io`, `log`, `net` and `supervisor`. Runs in
every process.
"""

"""Compiled kernels: numba functions over raw memory, shared by the network and IO processes.

Called by `cleaner`, `cli`, `control`, `io`, `ipc`, `log`, `metrics`, `net`, `protocol`, `purgatory`
and `supervisor`. Runs in every process.
"""

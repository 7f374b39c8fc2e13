"""Delayed operations: completed exactly once, watched by key, expired by a timing wheel.

Delayed produces are rows that kernels watch, because there may be one for each request.
No I/O, no clock, no threads. Called by `control`, `io` and `net`. Runs in their processes.
"""

"""Delayed operations: completed exactly once, watched by key, expired by a timing wheel.

Those of produce are rows that kernels watch: there are as many as requests.
No I/O, no clock, no threads.
"""

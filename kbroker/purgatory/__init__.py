"""Delayed operations: completed exactly once, watched by key, expired by a timing wheel.

No I/O, no clock, no threads.
"""

"""Metrics: one table of what is counted, and the shared-memory slots it is counted in."""

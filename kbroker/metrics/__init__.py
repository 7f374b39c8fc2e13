"""Metrics: the catalogue, and the slots in shared memory that processes count in."""

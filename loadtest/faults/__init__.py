"""Faults of a broker under load: a schedule from a seed, and one file for each kind of fault."""

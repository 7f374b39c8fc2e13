"""Micro-benchmarks that end by themselves: they measure the assumptions of the sizing model about a
host."""

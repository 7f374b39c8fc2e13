"""Micro-benchmarks that end by themselves: what the sizing model takes for granted of a host."""

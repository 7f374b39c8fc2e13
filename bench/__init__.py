"""Benchmarks: kbroker and Apache Kafka take turns on the same work. `python -m bench --help`."""

"""Kafka segment files as a Spark data source, format `kafka-segments`, that reads with kernels and
Arrow alone."""

"""Judges a broker with Spark, by the histories of its clients and its log; see
docs/validation.md."""

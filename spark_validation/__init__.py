"""Judges a broker from what its clients saw and what its log holds, with Spark; see
docs/validation.md."""

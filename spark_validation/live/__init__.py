"""The judgement while the load runs: Structured Streaming over histories and log."""

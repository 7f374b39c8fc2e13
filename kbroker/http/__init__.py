"""The HTTP server: /metrics, /healthz, /readyz, the console and the schema registry. It reads the
counters of the other processes.

Called by `cli` and `supervisor`. Runs in the http process.
"""

"""The http process: /metrics, /healthz, /readyz. It reads the counters of the other processes and
owns nothing."""

"""The http process: /metrics, /healthz, /readyz. It reads what the others count and owns nothing."""

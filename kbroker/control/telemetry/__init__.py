"""Metrics that clients push (KIP-714): subscriptions, client instances, and the series
they push.

`service` decides as Kafka's ClientMetricsManager does and decompresses what clients push,
`instances` remembers the clients, `otlp` decodes their pushes to `points`, large ones after `cut`
has reduced them, and `series` keeps a bounded number of them for /metrics.

May be called by the trunk of control, `control.clients` and APIs. Runs in control.
"""

"""Metrics that clients push (KIP-714): subscriptions, client instances, and the series
they push.

`service` decides as Kafka's ClientMetricsManager does, `instances` remembers the clients, `payload`
decompresses and `otlp` decodes what they push, and `series` keeps it, in bounds, until /metrics
asks.
"""

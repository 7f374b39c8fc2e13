"""Whether clients may push their metrics (KIP-714)."""

from kbroker.config.broker import BrokerConfig


def takes_telemetry(config: BrokerConfig) -> bool:
    """Whether the broker accepts client metrics: they are enabled, and /metrics can show them."""
    enabled = config.get_bool("kbroker.client.telemetry.enable")
    return enabled and bool(config.get_str("kbroker.http.listen"))

"""Whether clients may push their metrics (KIP-714)."""

from kbroker.config.broker import BrokerConfig


def takes_telemetry(config: BrokerConfig) -> bool:
    """It is enabled, and there are /metrics to show them on."""
    enabled = config.get_bool("kbroker.client.telemetry.enable")
    return enabled and bool(config.get_str("kbroker.http.listen"))

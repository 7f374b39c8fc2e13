"""Whether clients may push their metrics (KIP-714)."""

from kbroker.config.broker import BrokerConfig


def takes_telemetry(config: BrokerConfig) -> bool:
    """It is wanted, and there are /metrics to show them on."""
    wanted = config.get_bool("kbroker.client.telemetry.enable")
    return wanted and bool(config.get_str("kbroker.http.listen"))

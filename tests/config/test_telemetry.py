"""Whether clients may push their metrics."""

import pytest

from kbroker.config.broker import BrokerConfig
from kbroker.config.telemetry import takes_telemetry


@pytest.mark.parametrize(
    ("enabled", "listen", "taken"),
    [("true", "127.0.0.1:9404", True), ("false", "127.0.0.1:9404", False), ("true", "", False)],
)
def test_clients_push_where_it_is_configured_and_shown(enabled: str, listen: str, taken: bool) -> None:
    settings = {"kbroker.client.telemetry.enable": enabled, "kbroker.http.listen": listen}
    assert takes_telemetry(BrokerConfig(settings)) is taken

"""The addresses that the overview shows are those that a client can use."""

from kbroker.config.broker import BrokerConfig
from kbroker.http.console.views.overview import addresses


def test_listeners_are_shown_with_bound_ports_and_ipv6_in_brackets() -> None:
    listeners = "PLAINTEXT://127.0.0.1:0,OTHER://[::1]:9093"
    protocols = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT"}
    config, _ = BrokerConfig.load({"listeners": listeners, **protocols}, {})
    assert addresses(config, {"PLAINTEXT": 40001, "OTHER": 9093}) == [
        "PLAINTEXT://127.0.0.1:40001",
        "OTHER://[::1]:9093",
    ]

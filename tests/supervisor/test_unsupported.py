"""What is not done yet refuses the start instead of pretending."""

import pytest

from kbroker.config.broker import BrokerConfig
from kbroker.supervisor.unsupported import unsupported


def test_plain_listeners_may_start() -> None:
    assert unsupported(BrokerConfig({"listeners": "PLAINTEXT://127.0.0.1:0"})) == []


@pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def test_secure_listener_is_refused_by_name(protocol: str) -> None:
    config = BrokerConfig(
        {
            "listeners": f"PLAINTEXT://127.0.0.1:0,{protocol}://127.0.0.1:9093",
            "inter.broker.listener.name": "PLAINTEXT",
        }
    )
    (problem,) = unsupported(config)
    assert protocol in problem


def test_authorizer_is_refused() -> None:
    settings = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    (problem,) = unsupported(BrokerConfig({"listeners": "PLAINTEXT://127.0.0.1:0", **settings}))
    assert problem.startswith("authorizer.class.name")

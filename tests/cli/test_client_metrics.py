"""`kbroker client-metrics`."""

import uuid

import pytest

from tests.cli.conftest import Shell, Target
from tests.conftest import BrokerFactory

ENABLE = "kbroker.client.telemetry.enable"


@pytest.fixture
def name() -> str:
    return f"s-{uuid.uuid4().hex[:8]}"


def test_a_subscription_lives_from_alter_to_delete(cli: Shell, name: str) -> None:
    matches = ("--match", "client_id=a.*", "--match", "client_software_name=lib.*")
    cli("client-metrics", "alter", name, "--metrics", "a.,b.", "--interval-ms", "60000", *matches)
    assert name in cli("client-metrics", "list", "--json").json
    assert cli("client-metrics", "describe", name, "--json").json == [
        {
            "name": name,
            "interval.ms": "60000",
            "match": "client_id=a.*,client_software_name=lib.*",
            "metrics": "a.,b.",
        }
    ]
    cli("client-metrics", "alter", name, "--match", "")
    (line,) = [line for line in cli("client-metrics", "describe").lines if line.startswith(name)]
    assert line.split() == [name, "60000", "a.,b."]
    assert "Give --yes" in cli("client-metrics", "delete", name, code=2).stderr
    cli("client-metrics", "delete", name, "--yes")
    assert name not in cli("client-metrics", "list", "--json").json


def test_a_validated_change_makes_no_subscription(cli: Shell, name: str) -> None:
    cli("client-metrics", "alter", name, "--metrics", "*", "--validate-only")
    assert name not in cli("client-metrics", "list").text


def test_wrong_subscriptions_are_refused_with_a_sentence(cli: Shell, name: str) -> None:
    assert "--metrics" in cli("client-metrics", "alter", name, code=2).stderr
    assert "INVALID_CONFIG" in cli("client-metrics", "alter", name, "--match", "foo=1", code=1).stderr
    assert "INVALID_REQUEST" in cli("client-metrics", "alter", name, "--interval-ms", "5", code=1).stderr
    assert "there is no" in cli("client-metrics", "describe", name, code=1).stderr
    assert "there is no" in cli("client-metrics", "delete", name, code=1).stderr


def test_a_subscription_that_no_client_follows_is_said_to_have_no_effect(
    cli: Shell, target: Target, name: str
) -> None:
    """The tests' broker takes no metrics of clients, as by default. Apache Kafka has no such
    setting."""
    remarks = cli("client-metrics", "alter", name, "--metrics", "*").stderr
    assert f"{name}: altered" in remarks
    assert (f"warning: clients push no metrics, as the broker has {ENABLE}=false;" in remarks) == (
        target.name == "kbroker"
    )
    assert "kbroker.http.listen" not in remarks


@pytest.mark.compat
@pytest.mark.parametrize(("listen", "named"), [("127.0.0.1:0", ""), ("", "kbroker.http.listen=")])
def test_the_warning_names_only_what_keeps_the_broker_from_taking_metrics(
    shell: Shell, broker_factory: BrokerFactory, monkeypatch: pytest.MonkeyPatch, listen: str, named: str
) -> None:
    node = broker_factory({ENABLE: "true", "kbroker.http.listen": listen})
    monkeypatch.setenv("KBROKER_BOOTSTRAP", node.bootstrap)
    remarks = shell("client-metrics", "alter", "all", "--metrics", "*").stderr
    assert "all: altered" in remarks
    assert ENABLE not in remarks
    found = [line for line in remarks.splitlines() if line.startswith("warning: ")]
    assert [f"as the broker has {named};" in line for line in found] == ([True] if named else [])

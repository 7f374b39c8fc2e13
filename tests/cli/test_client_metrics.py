"""`kbroker client-metrics`."""

import uuid

import pytest

from tests.cli.conftest import Shell


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

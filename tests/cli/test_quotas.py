"""`kbroker quotas`."""

import uuid

import pytest

from tests.cli.conftest import Shell


@pytest.fixture
def user() -> str:
    return f"ann-{uuid.uuid4().hex[:8]}"


def test_quotas_are_set_listed_and_removed(cli: Shell, user: str) -> None:
    cli("quotas", "set", "--user", user, "producer_byte_rate=12345678")
    assert cli("quotas", "list", "--user", user).lines[1].endswith(" 12345678")
    cli("quotas", "set", "--user", user, "producer_byte_rate=1000", "consumer_byte_rate=2e3")
    cli("quotas", "set", "--user", user, "--client-id", "<default>", "request_percentage=50.5")
    found = {
        tuple(entry["entity"].items()): entry["quotas"]
        for entry in cli("quotas", "list", "--user", user, "--json").json
    }
    assert found == {
        (("user", user),): {"producer_byte_rate": 1000.0, "consumer_byte_rate": 2000.0},
        (("client-id", None), ("user", user)): {"request_percentage": 50.5},
    } or found == {
        (("user", user),): {"producer_byte_rate": 1000.0, "consumer_byte_rate": 2000.0},
        (("user", user), ("client-id", None)): {"request_percentage": 50.5},
    }
    assert any("<default>" in line and "50.5" in line for line in cli("quotas", "list", "--user", user).lines)
    done = cli("quotas", "remove", "--user", user, "request_percentage", code=1)
    assert done.stderr.endswith(
        "request_percentage: not set; quotas that are set: consumer_byte_rate, producer_byte_rate\n"
    )
    cli("quotas", "remove", "--user", user, "consumer_byte_rate", "--yes")
    cli("quotas", "remove", "--user", user, "--client-id", "<default>", "--yes")
    assert [entry["quotas"] for entry in cli("quotas", "list", "--user", user, "--json").json] == [
        {"producer_byte_rate": 1000.0}
    ]
    asked = cli("quotas", "remove", "--user", user, code=2).stderr
    assert f"Remove producer_byte_rate of user {user}? Give --yes" in asked
    cli("quotas", "remove", "--user", user, "-y")
    assert cli("quotas", "list", "--user", user, "--json").json == []


def test_wrong_quotas_are_refused_with_a_sentence(cli: Shell, user: str) -> None:
    assert "expected a number" in cli("quotas", "set", "--user", user, "producer_byte_rate=x", code=2).stderr
    assert "--user" in cli("quotas", "set", "producer_byte_rate=1", code=2).stderr
    bogus = cli("quotas", "set", "--user", user, "bogus=1", code=1).stderr
    assert "INVALID_REQUEST" in bogus
    assert "known: connection_creation_rate, consumer_byte_rate" in bogus
    assert "no quotas" in cli("quotas", "remove", "--user", user, code=1).stderr

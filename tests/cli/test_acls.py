"""`kbroker acls`, beside what kafka-acls itself shows."""

from concurrent.futures import Future
from types import TracebackType
from typing import Any

import pytest

from kbroker.cli.connection import Connection
from tests.cli.conftest import Shell
from tests.conftest import BrokerFactory
from tests.peer.tools import run_tool

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture
def acls(shell: Shell, broker_factory: BrokerFactory, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("KBROKER_BOOTSTRAP", broker_factory(AUTHORIZER).bootstrap)
    return shell


class NoAcls:
    """confluent-kafka's admin client beside a broker that has no ACL, or no authorizer: it gives
    the same for both."""

    def describe_acls(self, _filter: object) -> "Future[list[Any]]":
        answer: Future[list[Any]] = Future()
        answer.set_result([])
        return answer


class Answering:
    """kafka-python's admin client: it raises what the broker answers."""

    def __init__(self, error: Exception | None) -> None:
        self.error = error

    def __enter__(self) -> "Answering":
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: object, _where: TracebackType | None
    ) -> None:
        return

    def describe_acls(self, _filter: object) -> list[Any]:
        if self.error:
            raise self.error
        return []


@pytest.mark.parametrize("command", [("list",), ("remove", "--principal", "User:ann", "--yes")])
def test_an_error_that_the_client_library_drops_is_shown(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    from kafka.errors import SecurityDisabledError

    no_authorizer = SecurityDisabledError("No Authorizer is configured on the broker")
    monkeypatch.setattr(Connection, "admin", lambda _: NoAcls())
    monkeypatch.setattr(Connection, "kafka_python_admin", lambda _: Answering(no_authorizer))
    done = shell("acls", *command, code=1)
    assert done.stderr == "kbroker: SECURITY_DISABLED: No Authorizer is configured on the broker\n"
    assert not done.stdout
    monkeypatch.setattr(Connection, "kafka_python_admin", lambda _: Answering(None))
    shell("acls", *command)


@pytest.mark.compat
def test_a_broker_without_an_authorizer_says_so(cli: Shell) -> None:
    for command in (("list", "--json"), ("remove", "--principal", "User:ann", "--yes")):
        done = cli("acls", *command, code=1)
        assert done.stderr.startswith("kbroker: SECURITY_DISABLED: No Authorizer is configured")
        assert not done.stdout


@pytest.mark.compat
def test_acls_are_added_listed_and_removed(acls: Shell) -> None:
    acls("acls", "add", "--principal", "User:ann", "--topic", "orders", "-o", "read", "-o", "describe")
    acls("acls", "add", "--principal", "User:etl", "--topic", "raw-", "--prefixed", "--producer")
    acls("acls", "add", "--principal", "User:*", "--host", "10.0.0.9", "--cluster", "-o", "all", "--deny")
    everything = acls("acls", "list", "--json").json
    assert len(everything) == 6
    assert {row["permission"] for row in everything if row["resource"] == "cluster"} == {"deny"}
    held = acls("acls", "list", "--topic", "raw-data", "--json").json
    assert {(row["principal"], row["pattern"], row["operation"]) for row in held} == {
        ("User:etl", "prefixed", what) for what in ("write", "describe", "create")
    }
    assert acls("acls", "list", "--principal", "User:ann").lines[1].split() == [
        "topic", "orders", "literal", "User:ann", "*", "allow", "describe",
    ]  # fmt: skip
    gone = acls("acls", "remove", "--principal", "User:ann", "-o", "read", "--yes", "--json").json
    assert [row["operation"] for row in gone] == ["read"]
    acls("acls", "remove", "--topic", "raw-", "--prefixed", "--yes")
    assert len(acls("acls", "list", "--json").json) == 2
    assert "no ACL is like that" in acls("acls", "remove", "--principal", "User:bob", "--yes").stderr


@pytest.mark.compat
def test_what_says_too_little_is_refused(acls: Shell) -> None:
    assert "--topic" in acls("acls", "add", "--principal", "User:ann", "-o", "read", code=2).stderr
    assert "--operation" in acls("acls", "add", "--principal", "User:ann", "--topic", "t", code=2).stderr
    assert "--principal" in acls("acls", "add", "--topic", "t", "-o", "read", code=2).stderr
    assert "--principal" in acls("acls", "remove", "--yes", code=2).stderr


@pytest.mark.compat
@pytest.mark.kafka
def test_kafka_acls_shows_and_removes_what_was_added(
    shell: Shell, broker_factory: BrokerFactory, kafka_jars: str
) -> None:
    bootstrap = broker_factory(AUTHORIZER).bootstrap
    tool = ("org.apache.kafka.tools.AclCommand", "--bootstrap-server", bootstrap)
    run_tool(*tool, "--add", "--allow-principal", "User:ann", "--consumer", "--topic", "t", "--group", "g")
    rows = shell("acls", "list", "--bootstrap", bootstrap, "--json").json
    assert {(row["resource"], row["name"], row["operation"]) for row in rows} == {
        ("topic", "t", "read"), ("topic", "t", "describe"), ("group", "g", "read"),
    }  # fmt: skip
    shell("acls", "add", "--bootstrap", bootstrap, "--principal", "User:bob", "--topic", "t", "-o", "write")
    listed = run_tool(*tool, "--list", "--topic", "t").stdout
    assert "principal=User:bob, host=*, operation=WRITE, permissionType=ALLOW" in listed
    run_tool(*tool, "--remove", "--force", "--topic", "t")
    left = shell("acls", "list", "--bootstrap", bootstrap, "--json").json
    assert [row["resource"] for row in left] == ["group"]

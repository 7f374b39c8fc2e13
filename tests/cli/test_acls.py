"""`kbroker acls`, against both brokers, and beside what kafka-acls itself shows."""

import time
from collections.abc import Iterator

import pytest

from kbroker.cli import acl_requests
from kbroker.cli.acl_requests import EVERYTHING, create_acls, delete_acls
from kbroker.cli.connection import Connection
from kbroker.cli.failures import CommandFailed
from kbroker.config import acls as words
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.create_acls import AclCreationResult, CreateAclsResponse
from kbroker.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from tests.cli.conftest import Shell
from tests.conftest import BrokerFactory
from tests.peer.apache_kafka import QUICK_START, ApacheKafka
from tests.peer.kbroker_node import KBroker
from tests.peer.ports import free_port
from tests.peer.tools import run_tool

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("kafka", marks=pytest.mark.kafka),
        pytest.param("kbroker", marks=pytest.mark.compat),
    ],
)
def authorizing(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Apache Kafka, then kbroker, each with an authorizer."""
    folder = tmp_path_factory.mktemp("acls")
    node: ApacheKafka | KBroker
    if request.param == "kafka":
        request.getfixturevalue("kafka_jars")
        node = ApacheKafka(folder, jvm=QUICK_START)
        node.port = free_port()
        try:
            yield node.start(AUTHORIZER)
        finally:
            node.stop()
        return
    node = KBroker(folder, AUTHORIZER)
    try:
        yield node.start()
    finally:
        node.stop()


@pytest.fixture
def acls(shell: Shell, authorizing: str, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Runs command lines against a broker that has no ACL."""
    delete_acls(Connection(authorizing, {}, 60), [EVERYTHING])
    monkeypatch.setenv("KBROKER_BOOTSTRAP", authorizing)
    listed(shell, 0)
    return shell


def listed(acls: Shell, count: int, *options: str) -> list[dict[str, str]]:
    """The ACLs, when there are so many. Apache Kafka's broker learns of a change a little later
    than it answers."""
    deadline = time.monotonic() + 60
    while len(found := acls("acls", "list", "--json", *options).json) != count:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return list(found)


def answering(monkeypatch: pytest.MonkeyPatch, answer: DescribeAclsResponse) -> None:
    monkeypatch.setattr(acl_requests, "ask_broker_each", lambda *_: [answer])


@pytest.mark.parametrize("command", [("list",), ("remove", "--principal", "User:ann", "--yes")])
def test_an_error_of_the_broker_is_shown(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    text = "No Authorizer is configured on the broker"
    answering(monkeypatch, DescribeAclsResponse(0, ErrorCode.SECURITY_DISABLED, text))
    done = shell("acls", *command, code=1)
    advice = "set authorizer.class.name in its settings (`kbroker docs security`)"
    assert done.stderr == f"kbroker: SECURITY_DISABLED: {text}; {advice}\n"
    assert not done.stdout
    answering(monkeypatch, DescribeAclsResponse(0, 0, None))
    shell("acls", *command)


def test_a_refused_acl_hides_no_other(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    codes = (0, ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST)
    answer = CreateAclsResponse(results=[AclCreationResult(code) for code in codes])
    monkeypatch.setattr(acl_requests, "ask_broker_each", lambda *_: [answer])
    topics = [word for name in "abc" for word in ("--topic", name)]
    done = shell("acls", "add", "--principal", "User:ann", *topics, "-o", "read", code=1)
    assert done.stderr.startswith("1 ACL added\n")
    assert all(f"User:ann on {name}: INVALID_REQUEST" in done.stderr for name in "bc")


def test_types_of_a_newer_broker_are_shown_by_their_numbers(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    acl = AclDescription("User:ann", "*", 77, words.ALLOW)
    answering(monkeypatch, DescribeAclsResponse(0, 0, None, [DescribeAclsResource(99, "x", 3, [acl])]))
    (row,) = shell("acls", "list", "--json").json
    assert (row["resource"], row["operation"], row["pattern"]) == ("unknown-99", "unknown-77", "literal")


def test_json_is_the_only_output_of_a_removal(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is to be removed is shown with the question, on stderr."""
    acl = AclDescription("User:ann", "*", words.READ, words.ALLOW)
    answering(
        monkeypatch, DescribeAclsResponse(0, 0, None, [DescribeAclsResource(words.TOPIC, "x", 3, [acl])])
    )
    asked = shell("acls", "remove", "--principal", "User:ann", "--json", code=2)
    assert "User:ann" in asked.stderr
    assert "Remove 1 ACL?" in asked.stderr
    assert not asked.stdout
    assert "User:ann" in shell("acls", "remove", "--principal", "User:ann", code=2).text
    answering(monkeypatch, DescribeAclsResponse(0, 0, None))
    assert shell("acls", "remove", "--principal", "User:ann", "--json", "--yes").json == []


@pytest.mark.compat
def test_a_broker_without_an_authorizer_is_reported(cli: Shell) -> None:
    for command in (("list", "--json"), ("remove", "--principal", "User:ann", "--yes")):
        done = cli("acls", *command, code=1)
        assert done.stderr.startswith("kbroker: SECURITY_DISABLED: No Authorizer is configured")
        assert not done.stdout


def test_acls_are_added_listed_and_removed(acls: Shell) -> None:
    acls("acls", "add", "--principal", "User:ann", "--topic", "orders", "-o", "read", "-o", "describe")
    acls("acls", "add", "--principal", "User:etl", "--topic", "raw-", "--prefixed", "--producer")
    acls("acls", "add", "--principal", "User:*", "--host", "10.0.0.9", "--cluster", "-o", "all", "--deny")
    everything = listed(acls, 6)
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
    listed(acls, 2)
    assert "no ACL matches" in acls("acls", "remove", "--principal", "User:bob", "--yes").stderr


def test_acls_on_users_and_tokens_are_added_listed_and_removed(acls: Shell) -> None:
    acls("acls", "add", "--principal", "User:ops", "--user-principal", "User:etl",
         "-o", "create-tokens", "-o", "describe-tokens")  # fmt: skip
    acls("acls", "add", "--principal", "User:ops", "--user-principal", "User:team-", "--prefixed",
         "-o", "create-tokens", "--deny")  # fmt: skip
    acls("acls", "add", "--principal", "User:bob", "--delegation-token", "t0ken", "-o", "describe")
    acls("acls", "add", "--principal", "User:bob", "--transactional-id", "tx", "-o", "two-phase-commit")
    rows = listed(acls, 5)
    assert {tuple(row.values()) for row in rows} == {
        ("user", "User:etl", "literal", "User:ops", "*", "allow", "create-tokens"),
        ("user", "User:etl", "literal", "User:ops", "*", "allow", "describe-tokens"),
        ("user", "User:team-", "prefixed", "User:ops", "*", "deny", "create-tokens"),
        ("delegation-token", "t0ken", "literal", "User:bob", "*", "allow", "describe"),
        ("transactional-id", "tx", "literal", "User:bob", "*", "allow", "two-phase-commit"),
    }
    held = listed(acls, 1, "--user-principal", "User:team-a")
    assert held[0]["name"] == "User:team-"
    assert [row["principal"] for row in listed(acls, 1, "--delegation-token", "t0ken")] == ["User:bob"]
    gone = acls("acls", "remove", "--user-principal", "User:etl", "-o", "describe-tokens", "--yes", "--json")
    assert [(row["name"], row["operation"]) for row in gone.json] == [("User:etl", "describe-tokens")]
    listed(acls, 4)
    assert "2 ACLs removed" in acls("acls", "remove", "--principal", "User:bob", "--yes").stderr
    assert {row["resource"] for row in listed(acls, 2)} == {"user"}
    acls("acls", "remove", "--user-principal", "User:team-", "--prefixed", "--yes")
    acls("acls", "remove", "--user-principal", "User:etl", "--yes")
    listed(acls, 0)


def test_a_refusal_of_the_broker_is_an_error(acls: Shell, authorizing: str) -> None:
    """The command refuses such a principal itself."""
    nameless = words.Acl(words.TOPIC, "t", words.LITERAL, "ann", words.WILDCARD, words.READ, words.ALLOW)
    with pytest.raises(CommandFailed, match="ann on t: INVALID_REQUEST: "):
        create_acls(Connection(authorizing, {}, 60), [nameless])
    listed(acls, 0)


def test_an_incomplete_acl_is_refused(acls: Shell) -> None:
    assert "--topic" in acls("acls", "add", "--principal", "User:ann", "-o", "read", code=2).stderr
    assert "--operation" in acls("acls", "add", "--principal", "User:ann", "--topic", "t", code=2).stderr
    assert "--principal" in acls("acls", "add", "--topic", "t", "-o", "read", code=2).stderr
    assert "--principal" in acls("acls", "remove", "--yes", code=2).stderr
    no_type = ("--principal", "User:ann", "--user-principal", "bob", "-o", "create-tokens")
    assert "expected User:NAME" in acls("acls", "add", *no_type, code=2).stderr


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
    run_tool(*tool, "--remove", "--force", "--group", "g")
    given = ("--allow-principal", "User:ops", "--operation", "CreateTokens", "--user-principal", "User:etl")
    run_tool(*tool, "--add", *given)
    (row,) = shell("acls", "list", "--bootstrap", bootstrap, "--json").json
    assert tuple(row.values()) == ("user", "User:etl", "literal", "User:ops", "*", "allow", "create-tokens")
    token = ("--delegation-token", "t0ken", "-o", "describe")
    shell("acls", "add", "--bootstrap", bootstrap, "--principal", "User:bob", *token)
    listed = run_tool(*tool, "--list").stdout
    assert "resourceType=DELEGATION_TOKEN, name=t0ken, patternType=LITERAL" in listed
    assert "principal=User:bob, host=*, operation=DESCRIBE, permissionType=ALLOW" in listed

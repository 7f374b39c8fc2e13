"""`kbroker tokens`, by a user who has logged in."""

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Shell
from tests.conftest import RUNNING
from tests.peer.kbroker_node import KBroker

SECRET = "a-secret-of-tokens"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
USERS = 'user_ann="a" user_bob="b" user_root="r"'
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{MODULE} required {USERS};",
    "delegation.token.secret.key": SECRET,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:root",
}
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KBroker]:
    """A broker with delegation tokens."""
    made = KBroker(tmp_path_factory.mktemp("tokens"), SETTINGS)
    RUNNING.append(made)
    made.start()
    yield made
    RUNNING.remove(made)
    made.stop()


@pytest.fixture
def bootstrap(node: KBroker) -> str:
    return node.bootstrap


def properties(folder: Path, bootstrap: str, user: str) -> Path:
    """The client.properties of a user, whose password is its first letter."""
    file = folder / f"{user}.properties"
    file.write_text(
        f"bootstrap.servers={bootstrap}\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f"sasl.username={user}\nsasl.password={user[0]}\n"
    )
    return file


@pytest.mark.compat
def test_tokens_are_created_renewed_described_and_expired(
    shell: Shell, bootstrap: str, tmp_path: Path
) -> None:
    ann, bob = (("--command-config", properties(tmp_path, bootstrap, user)) for user in ("ann", "bob"))
    made = shell("tokens", "create", "--renewer", "User:bob", "--lifetime", "3h", "--json", *ann).json
    assert (made["owner"], made["requester"], made["renewers"]) == ("User:ann", "User:ann", ["User:bob"])
    assert made["max_ms"] - made["issue_ms"] == made["expiry_ms"] - made["issue_ms"] == 3 * HOUR_MS
    assert len(base64.b64decode(made["hmac"])) == 64
    assert "expires at" in shell("tokens", "renew", made["hmac"], "--for", "1h", *bob).stderr
    (row,) = shell("tokens", "describe", "--owner", "User:ann", "--json", *bob).json
    assert row["expiry_ms"] < made["expiry_ms"]
    assert {**row, "expiry_ms": 0} == {**made, "expiry_ms": 0}
    header, line = shell("tokens", "describe", *ann).lines
    assert header.split()[0] == "ID"
    assert line.split()[:4] == [made["id"], "User:ann", "User:ann", "User:bob"]
    assert (
        "End the delegation token now? Give --yes"
        in shell("tokens", "expire", made["hmac"], *ann, code=2).stderr
    )
    later = shell("tokens", "expire", made["hmac"], "--in", "1h", *ann)
    assert "expires at" in later.stderr
    assert "ended" in shell("tokens", "expire", made["hmac"], "--yes", *ann).stderr
    assert "DELEGATION_TOKEN_NOT_FOUND" in shell("tokens", "renew", made["hmac"], *ann, code=1).stderr


@pytest.mark.compat
def test_secret_and_hmac_are_in_no_log_title_or_setting(shell: Shell, node: KBroker, tmp_path: Path) -> None:
    ann, root = (("--command-config", properties(tmp_path, node.bootstrap, user)) for user in ("ann", "root"))
    hmac = shell("tokens", "create", "--json", *ann).json["hmac"]
    shell("tokens", "expire", hmac, "--yes", *ann)
    shown = shell("configs", "describe", "broker", "1", "--all", "--json", *root).text
    assert "delegation.token.secret.key" in shown
    titles = " ".join(" ".join(process.cmdline()) for process in node.processes())
    for text in (shown, titles, node.log_file.read_text()):
        assert SECRET not in text
        assert hmac not in text


@pytest.mark.compat
def test_a_token_for_another_user_is_refused_by_name(shell: Shell, bootstrap: str, tmp_path: Path) -> None:
    bob = ("--command-config", properties(tmp_path, bootstrap, "bob"))
    refused = shell("tokens", "create", "--owner", "User:ann", *bob, code=1)
    assert "DELEGATION_TOKEN_AUTHORIZATION_FAILED" in refused.stderr


def test_wrong_arguments_are_refused_before_anything_is_sent(shell: Shell) -> None:
    for words in (
        ("create", "--owner", "ann"),
        ("create", "--renewer", "User:"),
        ("create", "--lifetime", "soon"),
        ("renew", "no base64"),
        ("expire", "AAAA", "--in", "x"),
        ("describe", "--owner", ":ann"),
    ):
        assert shell("tokens", *words, "--bootstrap", "127.0.0.1:1", code=2).stderr


@pytest.mark.compat
def test_users_are_not_shown_without_the_right(shell: Shell, bootstrap: str, tmp_path: Path) -> None:
    """librdkafka's own request ended the process here, with an invalid free."""
    ann, root = (("--command-config", properties(tmp_path, bootstrap, user)) for user in ("ann", "root"))
    assert "CLUSTER_AUTHORIZATION_FAILED" in shell("users", "list", *ann, code=1).stderr
    assert "CLUSTER_AUTHORIZATION_FAILED" in shell("users", "remove", "bob", "--yes", *ann, code=1).stderr
    refused = shell("users", "add", "bob", "--password-file", "-", *ann, stdin=b"x\n", code=1)
    assert "CLUSTER_AUTHORIZATION_FAILED" in refused.stderr
    shell("users", "list", *root)

"""`kbroker users`, of a running broker and before its first start."""

import os
import sqlite3
import uuid
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.cli.failures import CommandFailed
from kbroker.cli.users import Mechanism, _alter
from kbroker.control.store.change import Change
from kbroker.control.store.store import FILE_NAME, Store
from tests.cli.conftest import Shell
from tests.conftest import BrokerFactory
from tests.peer.ports import free_port

WORD = b"secret\n"


def test_users_are_added_listed_and_removed(cli: Shell) -> None:
    user = f"ann-{uuid.uuid4().hex[:8]}"
    cli("users", "add", user, "--password-file", "-", "--iterations", 5000, stdin=WORD)
    (row,) = [row for row in cli("users", "list", "--json").json if row["user"] == user]
    assert sorted((each["mechanism"], each["iterations"]) for each in row["mechanisms"]) == [
        ("SCRAM-SHA-256", 5000),
        ("SCRAM-SHA-512", 5000),
    ]
    cli("users", "remove", user, "--mechanism", "SCRAM-SHA-256", "--yes")
    assert [line.split()[1] for line in cli("users", "list").lines if user in line] == ["SCRAM-SHA-512"]
    cli("users", "remove", user, "--yes")
    assert user not in cli("users", "list").text
    assert "no such credential" in cli("users", "remove", user, "--yes", code=1).stderr


@pytest.mark.parametrize("refused", [0, 1, 2])
def test_a_refused_change_does_not_hide_those_before_it(
    refused: int, capsys: pytest.CaptureFixture[str]
) -> None:
    answers: list[Future[None]] = [Future(), Future()]
    for number, answer in enumerate(answers):
        if number == refused:
            answer.set_exception(CommandFailed("no"))
        else:
            answer.set_result(None)
    admin = SimpleNamespace(
        alter_user_scram_credentials=lambda changes, request_timeout: {"ann": answers[changes[0]]}
    )
    broker: Any = SimpleNamespace(admin=lambda: admin, timeout_s=15.0)
    changes = {Mechanism.SHA_256: 0, Mechanism.SHA_512: 1}
    if refused < len(answers):
        with pytest.raises(CommandFailed, match="no"):
            _alter(broker, "ann", changes, "set")
    else:
        _alter(broker, "ann", changes, "set")
    lines = ["", "user ann: SCRAM-SHA-256 set\n", "user ann: SCRAM-SHA-256, SCRAM-SHA-512 set\n"]
    assert capsys.readouterr().err == lines[refused]


def test_a_change_waits_for_an_answer_as_long_as_timeout_says(capsys: pytest.CaptureFixture[str]) -> None:
    """librdkafka alone waits for a minute."""
    waits: list[float] = []
    done: Future[None] = Future()
    done.set_result(None)

    def alter(_: object, request_timeout: float = 60.0) -> dict[str, Future[None]]:
        waits.append(request_timeout)
        return {"ann": done}

    admin = SimpleNamespace(alter_user_scram_credentials=alter)
    broker: Any = SimpleNamespace(admin=lambda: admin, timeout_s=0.5)
    _alter(broker, "ann", {Mechanism.SHA_256: 0}, "set")
    assert waits == [0.5]
    assert capsys.readouterr().err == "user ann: SCRAM-SHA-256 set\n"


def test_a_name_that_http_basic_cannot_carry_is_reported(cli: Shell) -> None:
    """Kafka takes it, and so do SCRAM and the console."""
    user = f"team:{uuid.uuid4().hex[:8]}"
    done = cli("users", "add", user, "--password-file", "-", stdin=WORD)
    assert "HTTP Basic cannot carry a colon" in done.stderr
    assert user in cli("users", "list").text
    cli("users", "remove", user, "--yes")


def test_a_mechanism_that_is_not_known_is_named() -> None:
    """Of a broker of another version; before, a traceback."""
    with pytest.raises(CommandFailed, match="mechanism 3"):
        Mechanism.of(3)


def test_an_empty_password_is_refused(shell: Shell) -> None:
    assert "empty" in shell("users", "add", "ann", "--password-file", "-", stdin=b"\n", code=2).stderr


def test_a_store_that_cannot_be_written_is_reported_in_a_line(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "server.properties"
    file.write_text(f"log.dirs={tmp_path / 'data'}\n")

    def full(_store: Store, _change: Change) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(Store, "apply", full)
    monkeypatch.setattr(os, "umask", lambda _: 0)  # that of this process stays
    add = ("users", "add", "ann", "--offline", file, "--password-file", "-")
    done = shell(*add, stdin=WORD, code=1)
    assert done.stderr.endswith(f"/data/{FILE_NAME}: database or disk is full\n")


@pytest.mark.compat
def test_a_user_of_before_the_first_start_logs_in(
    shell: Shell, broker_factory: BrokerFactory, tmp_path: Path
) -> None:
    port = free_port()
    node = broker_factory(
        {"listeners": f"SASL_PLAINTEXT://127.0.0.1:{port}", "sasl.enabled.mechanisms": "SCRAM-SHA-512"},
        start=False,
    )
    file = tmp_path / "server.properties"
    file.write_text(f"log.dirs={node.data_dir}\n")
    shell("users", "add", "ann", "--offline", file, "--password-file", "-", stdin=WORD)
    node.start()
    client = tmp_path / "client.properties"
    client.write_text(
        f"bootstrap.servers=127.0.0.1:{port}\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
        'sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="ann" '
        'password="secret";\n'
    )
    assert shell("users", "list", "--command-config", client).lines[1].split()[:2] == ["ann", "SCRAM-SHA-256"]
    refused = shell("users", "add", "bob", "--offline", file, "--password-file", "-", stdin=WORD, code=1)
    assert "the broker runs" in refused.stderr

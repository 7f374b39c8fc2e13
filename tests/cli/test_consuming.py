"""A reader ends when it must, and needs no more rights than reading takes."""

import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.cli import consuming
from kbroker.cli.consuming import Bounds, Reader
from kbroker.cli.exit_codes import ExitCode
from tests.cli.conftest import Shell
from tests.conftest import BrokerFactory
from tests.peer.program import program

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{MODULE} required user_ann="a" user_root="r";',
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:root",
}


@pytest.mark.compat
def test_a_reader_that_must_end_does_not_wait_for_a_dead_broker(
    shell: Shell, broker_factory: BrokerFactory
) -> None:
    """The client library alone would wait forever."""
    node = broker_factory({})
    shell("topics", "create", "many", "-p", 1, "-b", node.bootstrap)
    lines = b"".join(
        b"%d %s\n" % (number, b"x" * 8000) for number in range(16_000)
    )  # more than a client prefetches
    shell("produce", "many", "-q", "-b", node.bootstrap, stdin=lines)
    consume = [sys.executable, "-m", "kbroker", "consume", "many", "-e", "-q", "--timeout", "10"]
    with program([*consume, "-b", node.bootstrap], stdout=PIPE, stderr=PIPE) as running:
        assert running.stdout is not None
        assert running.stdout.readline().startswith(b"0 ")
        node.kill9()
        output, errors = running.communicate(timeout=120)
    assert running.returncode == ExitCode.UNREACHABLE, errors
    assert len(output) < len(lines)
    (line,) = errors.splitlines()
    assert line.startswith(b"kbroker: ")


def test_a_slow_output_is_no_idle_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    taken: Iterator[list[str] | float] = iter([["a"], 0.1, ["b"], 0.1, 6.0])  # records, or seconds without

    def take(_left: int | None) -> list[str]:
        nonlocal now_s
        found = next(taken)
        if isinstance(found, list):
            return found
        now_s += found
        return []

    monkeypatch.setattr(consuming, "time", SimpleNamespace(monotonic=lambda: now_s))
    reader: Any = Reader.__new__(Reader)
    reader.bounds, reader._stopping, reader._take = Bounds(idle_timeout_s=5), False, take
    read = []
    for records in reader:
        read += records
        now_s += 100  # the pipe is full
    assert read == ["a", "b"]


@pytest.mark.compat
def test_reading_without_a_group_needs_no_right_of_a_group(
    shell: Shell, broker_factory: BrokerFactory, tmp_path: Path
) -> None:
    bootstrap = broker_factory(SETTINGS).bootstrap

    def as_user(user: str) -> tuple[str, Path]:
        file = tmp_path / f"{user}.properties"
        file.write_text(
            f"bootstrap.servers={bootstrap}\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
            f"sasl.username={user}\nsasl.password={user[0]}\n"
        )
        return "--command-config", file

    shell("topics", "create", "orders", *as_user("root"))
    shell("acls", "add", "--principal", "User:ann", "-o", "read", "--topic", "orders", *as_user("root"))
    # No end is given, so that the coordinator's refusal comes while records are awaited.
    read = ("consume", "orders", "--from-beginning", "--quiet", *as_user("ann"))
    assert shell(*read, "--idle-timeout", "2").stdout == b""
    refused = shell(*read, "--group", "billing", code=1)
    assert "GROUP_AUTHORIZATION_FAILED" in refused.stderr

"""The commands under test, run in this process, against Apache Kafka and against kbroker in
turn."""

import io
import json
import logging
import sys
import uuid
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kbroker.cli.app import run
from tests.peer.eventually import eventually


@dataclass(frozen=True)
class Result:
    """What one command line did."""

    code: int
    stdout: bytes
    stderr: str

    @property
    def text(self) -> str:
        return self.stdout.decode()

    @property
    def lines(self) -> list[str]:
        return self.text.removesuffix("\n").split("\n") if self.text else []

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)


class Shell:
    """Runs command lines as a shell would: own stdin, stdout, stderr; the code is checked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch

    def __call__(self, *arguments: object, stdin: bytes = b"", code: int | Collection[int] = 0) -> Result:
        streams = [io.TextIOWrapper(io.BytesIO(data), write_through=True) for data in (stdin, b"", b"")]
        with self.monkeypatch.context() as patched:
            for name, stream in zip(("stdin", "stdout", "stderr"), streams, strict=True):
                patched.setattr(sys, name, stream)
            ended = run([str(argument) for argument in arguments])
        out, err = (stream.detach().getvalue() for stream in streams[1:])
        result = Result(ended, out, err.decode())
        codes = code if isinstance(code, Collection) else (code,)
        assert ended in codes, f"{arguments} ended with {ended}:\n{result.text}\n{result.stderr}"
        return result


@dataclass(frozen=True)
class Target:
    """A running broker."""

    name: str
    bootstrap: str
    log_dir: Path


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    """Runs `kbroker` command lines; no broker is set."""
    monkeypatch.delenv("KBROKER_BOOTSTRAP", raising=False)
    monkeypatch.setenv("TERMINAL_WIDTH", "200")
    root = logging.getLogger()  # `serve` writes its log to stderr
    handlers, level = root.handlers[:], root.level
    yield Shell(monkeypatch)
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("kafka", marks=pytest.mark.kafka),
        pytest.param("kbroker", marks=pytest.mark.compat),
    ],
)
def target(request: pytest.FixtureRequest) -> Target:
    """Apache Kafka, then kbroker."""
    if request.param == "kafka":
        kafka = request.getfixturevalue("kafka")
        return Target("kafka", kafka.bootstrap, kafka.log_dir)
    broker = request.getfixturevalue("broker")
    return Target("kbroker", broker.bootstrap, broker.data_dir)


@pytest.fixture
def cli(shell: Shell, target: Target, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Runs `kbroker` command lines against the target."""
    monkeypatch.setenv("KBROKER_BOOTSTRAP", target.bootstrap)
    return shell


@pytest.fixture
def topic(cli: Shell, target: Target) -> str:
    """A new topic of three partitions."""
    name = f"cli-{uuid.uuid4().hex[:12]}"
    cli("topics", "create", name, "--partitions", 3)
    if target.name == "kafka":  # it is a leader a moment after its metadata says so
        eventually(lambda: cli("offsets", name, code=(0, 1)).code == 0)
    return name


@pytest.fixture
def without_retention(cli: Shell, topic: str) -> None:
    """The topic keeps records of 1970, which a look at retention would delete at any moment."""
    cli("topics", "alter", topic, "-c", "retention.ms=-1")


@pytest.fixture
def group() -> str:
    """An unused group id."""
    return f"group-{uuid.uuid4().hex[:12]}"


def offered(cli: Shell, api: str) -> None:
    """Skips the test when the target does not advertise an API (Apache Kafka advertises all)."""
    if api not in {row["api"] for row in cli("cluster", "api-versions", "--json").json}:
        pytest.skip(f"{api} is not offered yet")

"""A copied topic has the settings of its source, and its records in their partitions and order."""

import errno
import json
from typing import Any, NoReturn

import pytest

from kbroker.cli import copy_topic
from kbroker.cli.connection import Connection
from kbroker.cli.exit_codes import ExitCode
from kbroker.cli.failures import CommandFailed, Unreachable, broker_error
from kbroker.cli.output import say
from kbroker.cli.record_format import UNREADABLE, ConsumedRecord
from kbroker.cli.topic_description import describe_topic
from kbroker.protocol.errors import ErrorCode
from tests.cli.conftest import Shell

FORMAT = r"%p %o %T %h %k=%s\n"


def records(cli: Shell, topic: str) -> list[str]:
    return sorted(cli("consume", topic, "-e", "-q", "-f", FORMAT).lines)


def test_settings_and_records_are_copied(cli: Shell, topic: str) -> None:
    cli("topics", "alter", topic, "-c", "retention.ms=-1", "-c", "segment.bytes=1048576")
    lines = [
        {
            "key": f"k{n % 5}",
            "value": f"v{n}",
            "timestamp": 1000 + n,
            "headers": [{"name": "h", "value": str(n)}],
        }
        for n in range(40)
    ]
    nothing = {"key": "k1", "value": None, "timestamp": 2000}
    cli("produce", topic, "--json", "-q", stdin="\n".join(map(json.dumps, [*lines, nothing])).encode())
    same, empty, wide = f"{topic}-same", f"{topic}-empty", f"{topic}-wide"

    assert "41 records" in cli("topics", "copy", topic, same, "--records").stderr
    cli("topics", "copy", topic, empty)
    cli("topics", "copy", topic, wide, "--records", "-p", 7, "-c", "retention.ms=5000000000000")

    (was,) = cli("topics", "describe", topic, "--json").json
    (now,) = cli("topics", "describe", same, "--json").json
    assert now["configs"] == was["configs"]
    assert now["partitions"] == was["partitions"]
    assert records(cli, same) == records(cli, topic)
    assert records(cli, empty) == []
    (wider,) = cli("topics", "describe", wide, "--json").json
    assert (len(wider["partitions"]), wider["configs"]["retention.ms"]) == (7, "5000000000000")
    assert {line.split(" ", 2)[2] for line in records(cli, wide)} == {
        line.split(" ", 2)[2] for line in records(cli, topic)
    }


def test_a_copy_that_is_impossible_is_refused_with_its_reason(cli: Shell, topic: str) -> None:
    assert "TOPIC_ALREADY_EXISTS" in cli("topics", "copy", topic, topic, code=1).stderr
    assert "UNKNOWN_TOPIC" in cli("topics", "copy", "nosuch", "new", code=1).stderr
    assert "would be created" in cli("topics", "copy", topic, "new", "--validate-only").stderr
    assert "UNKNOWN_TOPIC" in cli("topics", "describe", "new", code=1).stderr


def test_a_copy_that_fails_leaves_no_topic(cli: Shell, topic: str) -> None:
    """Its target takes smaller records than the source has."""
    copied = f"{topic}-copy"
    cli("produce", topic, "-q", stdin=b"x" * 4000)
    done = cli("topics", "copy", topic, copied, "--records", "-c", "max.message.bytes=100", code=1)
    assert f"{copied}: removed, because the copy is incomplete" in done.stderr
    assert "MESSAGE_TOO_LARGE" in done.stderr.splitlines()[-1]
    assert copied not in cli("topics", "list").text
    assert "1 record" in cli("topics", "copy", topic, copied, "--records").stderr


def test_a_record_of_timestamp_0_is_not_copied() -> None:
    """librdkafka writes the present time instead."""
    record = ConsumedRecord("orders", 2, 7, 0, None, b"v", ())
    with pytest.raises(CommandFailed, match=r"^orders-2: the record at offset 7 has timestamp 0"):
        copy_topic._again(record, keep_partition=True)
    assert copy_topic._again(record._replace(timestamp=1), keep_partition=True).timestamp == 1
    with pytest.raises(
        CommandFailed, match=r"^orders-2: the record at offset 7 has headers with a name that is not"
    ):
        copy_topic._again(record._replace(timestamp=1, headers=UNREADABLE), keep_partition=True)


def test_a_copy_that_is_stopped_leaves_no_topic(
    cli: Shell, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C arrives with the first record."""

    def interrupted(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    copied = f"{topic}-copy"
    cli("produce", topic, "-q", stdin=b"a")
    monkeypatch.setattr(copy_topic, "_again", interrupted)
    done = cli("topics", "copy", topic, copied, "--records", code=ExitCode.INTERRUPTED)
    assert f"{copied}: removed" in done.stderr
    assert copied not in cli("topics", "list").text


def test_a_complete_copy_stays_when_nobody_reads_about_it(
    cli: Shell, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with `2>&1 | head -1`: the line about the records meets a closed pipe."""

    def closed(text: str) -> None:
        if "record" in text:
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")
        say(text)

    copied = f"{topic}-copy"
    cli("produce", topic, "-q", stdin=b"a")
    monkeypatch.setattr("kbroker.cli.copy_topic.say", closed)
    cli("topics", "copy", topic, copied, "--records", code=range(256))
    assert records(cli, copied) == records(cli, topic)


def test_a_failed_copy_removes_no_other_topic_of_the_name(
    cli: Shell, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = f"{topic}-copy"

    def replaced(*_: object) -> NoReturn:
        cli("topics", "delete", copied, "--yes")
        cli("topics", "create", copied)
        raise Unreachable("no broker answers")

    cli("produce", topic, "-q", stdin=b"a")
    monkeypatch.setattr(copy_topic, "_again", replaced)
    cli("topics", "copy", topic, copied, "--records", code=ExitCode.UNREACHABLE)
    assert copied in cli("topics", "list").text


def test_a_copy_that_cannot_be_removed_is_named(
    cli: Shell, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker ends with the first record: no client reaches it from then on."""

    def unreachable(*_: object) -> NoReturn:
        raise Unreachable("no broker answers")

    def ended(*_: object) -> NoReturn:
        monkeypatch.setattr(Connection, "admin", unreachable)
        unreachable()

    copied = f"{topic}-copy"
    cli("produce", topic, "-q", stdin=b"a")
    monkeypatch.setattr(copy_topic, "_again", ended)
    done = cli("topics", "copy", topic, copied, "--records", code=ExitCode.UNREACHABLE)
    assert f"`kbroker topics delete {copied}` removes it" in done.stderr


def test_a_new_topic_that_no_broker_knows_yet_is_waited_for(
    cli: Shell, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = [broker_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.value, "not yet")] * 2

    def describe(admin: Any, name: str, timeout_s: float) -> dict[str, Any]:
        if name != topic and late:
            raise late.pop()
        return describe_topic(admin, name, timeout_s)

    cli("produce", topic, "-q", stdin=b"a")
    monkeypatch.setattr(copy_topic, "describe_topic", describe)
    assert "1 record" in cli("topics", "copy", topic, f"{topic}-copy", "--records").stderr
    assert late == []

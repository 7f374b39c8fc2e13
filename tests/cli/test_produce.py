"""Lines and documents become the records they describe; what was not written is an error."""

import json
import logging
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from kafka.partitioner.default import murmur2

from kbroker.cli.exit_codes import ExitCode
from kbroker.cli.failures import Unreachable
from kbroker.cli.produce import Sending, _failure
from kbroker.cli.record_lines import NewRecord
from tests.cli.conftest import Shell, Target
from tests.peer.program import program


def records(cli: Shell, topic: str) -> list[dict[str, object]]:
    lines = cli("consume", topic, "--from-beginning", "--until-end", "--json", "--quiet").lines
    return sorted((json.loads(line) for line in lines), key=lambda r: (r["partition"], r["offset"]))


def test_every_line_is_a_record_and_the_summary_counts_them(cli: Shell, topic: str) -> None:
    done = cli("produce", topic, stdin=b"one\n\nthree")
    assert done.stderr.startswith("3 records, ")
    assert sorted(str(r["value"]) for r in records(cli, topic)) == ["", "one", "three"]
    assert cli("produce", topic, "--quiet", stdin=b"more\n").stderr == ""


def test_a_dash_as_file_is_stdin(cli: Shell, topic: str) -> None:
    assert cli("produce", topic, "-", stdin=b"one\ntwo\n").stderr.startswith("2 records")


def test_keys_headers_and_nulls_are_cut_out_of_the_line(cli: Shell, topic: str) -> None:
    options = ("-p", 1, "-K", ":", "--headers-separator", "\\t", "-Z", "NIL", "-H", "all=yes")
    cli("produce", topic, *options, stdin=b"a=1,b\tkey:value\n\tNIL:x:y\n\tk:NIL\n")
    first, second, third = records(cli, topic)
    assert first["headers"] == [
        {"name": "all", "value": "yes"},
        {"name": "a", "value": "1"},
        {"name": "b", "value": None},
    ]
    assert (first["key"], first["value"], first["partition"]) == ("key", "value", 1)
    assert (second["key"], second["value"]) == (None, "x:y")
    assert (third["key"], third["value"]) == ("k", None)


def test_the_producer_id_is_requested_with_the_first_record(cli: Shell, topic: str, target: Target) -> None:
    """librdkafka alone lets half a second pass."""
    lines: list[str] = []

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    logger = logging.getLogger(f"librdkafka of {topic}")
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    logger.addHandler(Lines())
    settings = {"bootstrap.servers": target.bootstrap, "enable.idempotence": True, "debug": "eos"}
    producer = Producer(settings, logger=logger)
    sending = Sending(producer, topic, None)
    sending.send(NewRecord(b"k", b"v", []))
    producer.poll(0)
    assert any("Acquiring ProducerId" in line for line in lines)
    sending.finish(60)


def test_a_line_without_its_separator_is_a_usage_error(cli: Shell, topic: str) -> None:
    assert "after its key" in cli("produce", topic, "-K", ":", stdin=b"no key\n", code=2).stderr


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_and_any_delimiter_brings_the_bytes_back(cli: Shell, topic: str, codec: str) -> None:
    cli(
        "produce",
        topic,
        "-z",
        codec,
        "-D",
        "\\x00",
        "--partition",
        0,
        stdin=b"a\nb\0\xff\xfe\0" + b"z" * 5000,
    )
    found = cli("consume", topic, "-p", 0, "--from-beginning", "-e", "-q", "-f", "%S %s|").stdout
    assert found == b"3 a\nb|2 \xff\xfe|5000 " + b"z" * 5000 + b"|"


def test_a_file_is_read_and_keys_go_where_javas_producer_puts_them(
    cli: Shell, topic: str, tmp_path: Path
) -> None:
    source = tmp_path / "records.txt"
    source.write_text("".join(f"key-{n}={n}\n" for n in range(50)))
    cli("produce", topic, source, "--key-separator", "=", "--acks", "1")
    found = records(cli, topic)
    assert len(found) == 50
    assert {r["partition"] for r in found} == {0, 1, 2}
    expected = [(murmur2(str(r["key"]).encode()) & 0x7FFFFFFF) % 3 for r in found]
    assert [r["partition"] for r in found] == expected
    assert "No such file" in cli("produce", topic, tmp_path / "missing", code=2).stderr


def test_documents_of_consume_can_be_produced_again(cli: Shell, topic: str, group: str) -> None:
    copy = f"copy-{group}"
    cli("topics", "create", copy, "-p", 1)
    cli("produce", topic, "-K", ":", "-H", "h=v", stdin=b"k:\xff\x00binary\nk2:text\n")
    documents = cli("consume", topic, "--from-beginning", "-e", "--json", "-q").stdout
    cli("produce", copy, "--json", stdin=documents)
    kept = ("key", "value", "value_base64", "headers", "timestamp")
    before = [{name: r.get(name) for name in kept} for r in records(cli, topic)]
    after = [{name: r.get(name) for name in kept} for r in records(cli, copy)]
    assert sorted(before, key=str) == sorted(after, key=str)
    assert "not a JSON document" in cli("produce", copy, "--json", stdin=b"text\n", code=2).stderr


def test_lines_can_be_typed_on_a_terminal(cli: Shell, topic: str, target: Target) -> None:
    terminal, other_end = pty.openpty()
    produce = [sys.executable, "-m", "kbroker", "produce", topic, "-q", "-b", target.bootstrap]
    with program(produce, stdin=other_end, stderr=subprocess.PIPE) as running:
        os.close(other_end)
        assert running.stderr is not None
        assert running.stderr.readline() == b"each line becomes a record; Ctrl-D ends\n"
        os.write(terminal, b"typed\n\x04")
        assert running.wait(60) == 0
    os.close(terminal)
    assert [record["value"] for record in records(cli, topic)] == ["typed"]


def test_a_header_of_every_record_is_one_of_documents_too(cli: Shell, topic: str) -> None:
    document = b'{"value": "v", "headers": [{"name": "own", "value": "2"}]}\n'
    cli("produce", topic, "--json", "-H", "every=1", stdin=document)
    (record,) = records(cli, topic)
    assert record["headers"] == [{"value": "1", "name": "every"}, {"value": "2", "name": "own"}]


def test_a_refusal_of_the_broker_is_an_error_with_its_name(cli: Shell, topic: str) -> None:
    cli("topics", "alter", topic, "-c", "max.message.bytes=200")
    failed = cli("produce", topic, "-p", 0, stdin=b"x" * 5000, code=1)
    assert "MESSAGE_TOO_LARGE" in failed.stderr
    assert "not written: 1 of 1 record: " in failed.stderr


def test_a_large_record_is_written_and_copied_where_the_topic_takes_it(cli: Shell, topic: str) -> None:
    large = b"x" * 3_000_000
    assert "max.message.bytes" in cli("produce", topic, stdin=large, code=1).stderr
    cli("topics", "alter", topic, "-c", "max.message.bytes=4000000")
    cli("produce", topic, "-q", stdin=large)
    cli("topics", "copy", topic, f"{topic}-large", "--records")
    for each in (topic, f"{topic}-large"):
        assert cli("consume", each, "-e", "-q").stdout == large + b"\n"


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_a_record_that_the_client_refuses_is_not_counted_as_written(
    cli: Shell, topic: str, acks: str
) -> None:
    too_large = b"first\n" + b"x" * 5000 + b"\nlast\n"
    failed = cli("produce", topic, "-X", "message.max.bytes=2000", "--acks", acks, stdin=too_large, code=1)
    assert failed.stderr == (
        "kbroker: not written: 1 of 2 records: larger than message.max.bytes of this client; -X sets another limit\n"
    )
    assert [record["value"] for record in records(cli, topic)] == ["first"]


def test_a_record_that_waits_for_room_when_ctrl_c_comes_is_not_counted_as_written() -> None:
    class Full:
        """A client whose queue is full of records without an answer."""

        def produce(self, *_: object, **__: object) -> None:
            raise BufferError

        def poll(self, _seconds: float) -> None:
            raise KeyboardInterrupt

        def flush(self, _seconds: float) -> int:
            return 7

    client: Any = Full()
    sending = Sending(client, "orders", None)
    sending.sent = 7
    with pytest.raises(KeyboardInterrupt):
        sending.send(NewRecord(None, b"waits", []))
    with pytest.raises(Unreachable, match=r"^7 records without an answer, 0 written$"):
        sending.finish(1)


def test_without_acks_the_summary_counts_what_was_sent(cli: Shell, topic: str) -> None:
    """The broker drops records that are too large, and cannot report that."""
    done = cli("produce", topic, "--acks", "0", stdin=b"x" * 3_000_000)
    assert done.stderr.startswith("1 record, 3.0 MB in ")
    assert done.stderr.endswith("; sent, the broker reports no refusal\n")
    assert records(cli, topic) == []


def test_a_partition_that_is_not_there_is_an_error(cli: Shell, topic: str) -> None:
    failed = cli("produce", topic, "-p", 9, "--timeout", 20, stdin=b"x\n", code=1)
    assert "partition" in failed.stderr.lower()


def test_an_unknown_client_setting_is_a_usage_error(cli: Shell, topic: str) -> None:
    level = cli("produce", topic, "-X", "compression.level=99", stdin=b"x\n", code=2)
    assert len(level.stderr.splitlines()) == 1
    assert "no.such" in cli("produce", topic, "-X", "no.such=1", stdin=b"x\n", code=2).stderr


def test_a_partition_that_does_not_exist_is_said_in_words() -> None:
    error = KafkaError(KafkaError._UNKNOWN_PARTITION)
    failure = _failure(error, "not written: 1 of 1 record")
    assert failure.message.endswith("there is no such partition; `kbroker topics describe` shows them")
    assert failure.code == ExitCode.FAILED

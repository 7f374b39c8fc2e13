"""Records come out where, how and as long as asked for; groups go on where they were."""

import json
import os
import pty
import signal
import subprocess
import sys
import time

import pytest

from tests.cli.conftest import Shell, Target, offered
from tests.peer.program import program

END = ("--until-end", "--quiet")


@pytest.fixture
def filled(cli: Shell, topic: str) -> str:
    """Partition 0 holds v0 to v9 with keys, partition 1 holds w0; partition 2 is empty."""
    cli("produce", topic, "-p", 0, "-K", ":", "-q", stdin="".join(f"k{n}:v{n}\n" for n in range(10)).encode())
    cli("produce", topic, "-p", 1, "-q", stdin=b"w0\n")
    return topic


def test_from_the_beginning_to_the_end_gives_every_record(cli: Shell, filled: str) -> None:
    done = cli("consume", filled, "--from-beginning", "-e")
    assert sorted(done.lines) == sorted([f"v{n}" for n in range(10)] + ["w0"])
    assert done.stderr.startswith("11 records, ")


def test_a_reader_from_the_end_stops_at_once(cli: Shell, filled: str) -> None:
    assert cli("consume", filled, "--offset", "latest", *END).stdout == b""


@pytest.mark.parametrize("is_piped", [False, True])
def test_a_reader_that_waits_says_so_on_a_terminal(
    cli: Shell, filled: str, target: Target, is_piped: bool
) -> None:
    """Without a start it prints nothing of a topic that is full."""
    terminal, other_end = pty.openpty()
    consume = [sys.executable, "-m", "kbroker", "consume", filled, "-b", target.bootstrap]
    stdout = subprocess.DEVNULL if is_piped else other_end
    with program(consume, stdout=stdout, stderr=other_end) as running:
        os.close(other_end)
        assert os.read(terminal, 1000).startswith(b"waiting for new records; --from-beginning")
        running.send_signal(signal.SIGINT)
        running.wait(90)
    os.close(terminal)


def test_offsets_choose_the_first_record(cli: Shell, filled: str) -> None:
    assert cli("consume", filled, "-p", 0, "-o", 7, *END).lines == ["v7", "v8", "v9"]
    assert cli("consume", filled, "-o", -2, *END).lines in (["v8", "v9", "w0"], ["w0", "v8", "v9"])
    assert cli("consume", filled, "-o", "-0", *END).lines == [], "the last 0, not offset 0"
    assert cli("consume", filled, "-p", 0, "-o", "earliest", "-n", 2, "-q").lines == ["v0", "v1"]
    assert "has no offset 99" in cli("consume", filled, "-p", 0, "-o", 99, *END, code=1).stderr
    assert "expected earliest" in cli("consume", filled, "-o", "middle", *END, code=2).stderr


@pytest.mark.usefixtures("without_retention")
def test_times_bound_both_sides(cli: Shell, topic: str) -> None:
    documents = "".join(
        json.dumps({"value": f"t{n}", "timestamp": 1_000_000 + n * 1000}) + "\n" for n in range(6)
    )
    cli("produce", topic, "-p", 2, "--json", "-q", stdin=documents.encode())
    assert cli("consume", topic, "-p", 2, "--from", 1_002_500, *END).lines == ["t3", "t4", "t5"]
    assert cli("consume", topic, "--from", "1970-01-01T00:16:41", "--until", 1_003_000, "-q").lines == [
        "t1",
        "t2",
    ]
    assert cli("consume", topic, "-p", 2, "--until", 1_002_000, "-q").lines == ["t0", "t1"]
    assert cli("consume", topic, "--from", "now", *END).stdout == b""
    assert "not a point in time" in cli("consume", topic, "--from", "soon", *END, code=2).stderr


@pytest.mark.usefixtures("without_retention")
def test_a_format_shows_every_field(cli: Shell, topic: str) -> None:
    first = {"key": "k", "value": "vé", "timestamp": 1234, "headers": [{"name": "h", "value": "1"}]}
    documents = f'{json.dumps(first)}\n{{"value": null}}\n'.encode()
    cli("produce", topic, "-p", 1, "--json", "-q", stdin=documents)
    shown = cli(
        "consume", topic, "--from-beginning", *END, "-f", r"%t-%p@%o %K:%k %S:%s [%h] 100%%\x0a", "-n", 1
    )
    assert shown.text == f"{topic}-1@0 1:k 3:vé [h=1] 100%\n"
    second = cli("consume", topic, "-p", 1, "-o", 1, *END, "-f", "%K %S %k%s|%R")
    assert second.stdout == b"-1 -1 |\xff\xff\xff\xff"
    stamp = cli("consume", topic, "-p", 1, "-o", 0, "-n", 1, "-q", "-f", "%T").text
    assert stamp == "1234"
    assert "unknown field %q" in cli("consume", topic, "-f", "%q", *END, code=2).stderr


def test_fields_are_put_before_the_value(cli: Shell, filled: str) -> None:
    options = ("--print-key", "--print-offset", "--print-headers", "--separator", "|")
    assert cli("consume", filled, "-p", 0, "-o", 3, "-n", 1, "-q", *options).text == "0:3||k3|v3\n"
    line = cli("consume", filled, "-p", 1, "-o", 0, "-n", 1, "-q", "--print-key", "--print-timestamp").text
    stamp, key, value = line.rstrip("\n").split("\t")
    assert stamp.endswith("Z")
    assert (key, value) == ("null", "w0")


def test_json_lines_hold_the_complete_record(cli: Shell, filled: str) -> None:
    record = json.loads(cli("consume", filled, "-p", 0, "-o", 4, "-n", 1, "-q", "--json").stdout)
    assert record.pop("timestamp") > 1_600_000_000_000
    assert record == {"topic": filled, "partition": 0, "offset": 4, "headers": [], "key": "k4", "value": "v4"}


def test_nothing_for_a_while_ends_it(cli: Shell, filled: str) -> None:
    start = time.monotonic()
    assert cli("consume", filled, "--idle-timeout", 0.3, "-q").stdout == b""
    assert time.monotonic() - start >= 0.3


def test_a_group_continues_at_its_committed_offsets(cli: Shell, filled: str, group: str) -> None:
    first = cli("consume", filled, "-g", group, "--from-beginning", "-n", 4, "-q").lines
    rest = cli("consume", filled, "-g", group, "--from-beginning", *END).lines
    assert len(first) == 4
    assert sorted(first + rest) == sorted([f"v{n}" for n in range(10)] + ["w0"])
    assert cli("consume", filled, "-g", group, *END).stdout == b""


def test_a_group_without_offsets_starts_at_the_end(cli: Shell, filled: str, group: str) -> None:
    assert cli("consume", filled, "-g", group, *END).stdout == b""


def test_the_brokers_own_assignment_works_too(cli: Shell, filled: str, group: str) -> None:
    offered(cli, "ConsumerGroupHeartbeat")
    read = cli("consume", filled, "-g", group, "--group-protocol", "consumer", "--from-beginning", *END)
    assert len(read.lines) == 11
    assert cli("groups", "describe", group, "--json").json[0]["type"] == "consumer"


def test_a_group_takes_no_position(cli: Shell, filled: str, group: str) -> None:
    assert "continues where it was" in cli("consume", filled, "-g", group, "-o", 1, code=2).stderr
    assert "only one of" in cli("consume", filled, "-o", 1, "--from-beginning", code=2).stderr


def test_a_topic_or_partition_that_is_not_there_fails(cli: Shell, filled: str, group: str) -> None:
    assert "UNKNOWN_TOPIC_OR_PARTITION" in cli("consume", group, *END, code=1).stderr
    assert "no partition" in cli("consume", filled, "-p", 7, *END, code=1).stderr
    assert cli("topics", "list", group, "--json").json == [], "looking at a topic must not create it"


def test_read_committed_leaves_out_what_was_aborted(
    cli: Shell, topic: str, target: Target, group: str
) -> None:
    offered(cli, "EndTxn")
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": target.bootstrap, "transactional.id": f"txn-{group}"})
    producer.init_transactions(120)
    for value, commit in (("kept", True), ("dropped", False)):
        producer.begin_transaction()
        producer.produce(topic, value, partition=0)
        producer.flush(60)
        (producer.commit_transaction if commit else producer.abort_transaction)(60)
    wait_for_markers(target, group)
    everything = cli("consume", topic, "--from-beginning", *END).lines
    committed = cli("consume", topic, "--from-beginning", "--isolation", "read_committed", *END).lines
    assert (everything, committed) == (["kept", "dropped"], ["kept"])


def test_a_reader_of_the_output_that_leaves_ends_it_quietly(cli: Shell, topic: str, target: Target) -> None:
    cli("produce", topic, "-q", stdin=b"".join(b"%d %s\n" % (n, b"x" * 100) for n in range(20_000)))
    consume = [sys.executable, "-m", "kbroker", "consume", topic, "--from-beginning", "-b", target.bootstrap]
    with program(consume, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdout.readline().endswith(b"x\n")
        running.stdout.close()
        assert running.stderr is not None
        assert running.stderr.read() == b""
        assert running.wait(90) == 1


def test_ctrl_c_is_the_ordinary_end_and_commits_what_was_printed(
    cli: Shell, filled: str, group: str, target: Target
) -> None:
    options = ("-g", group, "--from-beginning", "-b", target.bootstrap)
    consume = [sys.executable, "-m", "kbroker", "consume", filled, *options]
    with program(consume, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        for _ in range(11):
            assert running.stdout.readline()
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=90)
        assert running.returncode == 0
        assert errors.startswith(b"11 records, ")
    assert cli("groups", "describe", group, "--json").json[0]["lag"] == 0


@pytest.mark.usefixtures("without_retention")
def test_the_tail_is_the_last_records_of_all_partitions_by_time(cli: Shell, topic: str) -> None:
    for partition, stamps in enumerate(((1000, 4000), (3000, 6000), (2000, 5000))):
        lines = "".join(f'{{"value": "t{stamp}", "timestamp": {stamp}}}\n' for stamp in stamps)
        cli("produce", topic, "-p", partition, "--json", "-q", stdin=lines.encode())
    assert cli("consume", topic, "--tail", 3, "-q").lines == ["t4000", "t5000", "t6000"]
    assert cli("consume", topic, "--tail", 2, "-p", 0, "-q").lines == ["t1000", "t4000"]
    assert len(cli("consume", topic, "--tail", 100, "-q").lines) == 6
    assert "only one of" in cli("consume", topic, "--tail", 1, "--from", "now", code=2).stderr
    assert "--tail" in cli("consume", topic, "--tail", 0, code=2).stderr


def wait_for_markers(target: Target, group: str) -> None:
    """The end of a transaction is answered before its markers are in the logs; a new producer of
    the id gets its own when they are."""
    from confluent_kafka import Producer

    settings = {"bootstrap.servers": target.bootstrap, "transactional.id": f"txn-{group}"}
    Producer(settings).init_transactions(120)


def test_tail_and_count_see_records_and_no_offsets(
    cli: Shell, topic: str, target: Target, group: str
) -> None:
    """Each of these transactions leaves a marker, and an aborted one its records, too."""
    offered(cli, "EndTxn")
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": target.bootstrap, "transactional.id": f"txn-{group}"})
    producer.init_transactions(120)
    for number in range(8):
        producer.begin_transaction()
        producer.produce(topic, f"v{number}", partition=0)
        producer.flush(60)
        (producer.abort_transaction if number % 4 else producer.commit_transaction)(60)
    wait_for_markers(target, group)
    committed = ("--isolation", "read_committed", "-q")
    assert cli("offsets", f"{topic}:0", "--json").json[0]["latest"] == 16
    assert cli("consume", topic, "--tail", 2, *committed).lines == ["v0", "v4"]
    assert cli("consume", topic, "--exact-count", *committed).lines == ["2"]
    assert cli("consume", topic, "--exact-count", "-q").lines == ["8"]


def test_a_count_takes_a_start_and_names_partitions(cli: Shell, filled: str, group: str) -> None:
    assert cli("consume", filled, "-p", 0, "-o", 4, "--exact-count", "-q").lines == ["6"]
    assert cli("consume", filled, "--exact-count", "-q", "--json").json == {
        "records": 11,
        "bytes": 42,
        "partitions": [{"topic": filled, "partition": p, "records": n} for p, n in enumerate((10, 1, 0))],
    }
    for options in (("--tail", 2), ("-f", "%s")):
        assert "prints no record" in cli("consume", filled, "--exact-count", *options, code=2).stderr
    for option in ("--tail=2", "--exact-count"):
        assert "continues where it was" in cli("consume", filled, "-g", group, option, code=2).stderr

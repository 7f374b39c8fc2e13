"""A watched group is shown again and again; an idle one with all partitions of its topics."""

import json
import signal
import subprocess
import sys
import threading
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.cli import describe_groups, group_description
from kbroker.cli.connection import Connection
from kbroker.cli.describe_groups import CLEAR, all_groups, with_interval
from kbroker.cli.failures import Unreachable, again_and_again
from kbroker.cli.group_description import Group
from kbroker.cli.group_members import Member
from tests.cli.conftest import Shell, Target
from tests.conftest import BrokerFactory
from tests.peer.kbroker_node import KBroker
from tests.peer.program import program


def test_an_idle_group_lags_in_partitions_where_it_never_committed(
    cli: Shell, topic: str, group: str, target: Target
) -> None:
    from confluent_kafka import Consumer, TopicPartition

    for partition in (0, 1):
        cli("produce", topic, "-p", partition, "-q", stdin=b"a\nb\nc\n")
    consumer = Consumer({"bootstrap.servers": target.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)
    consumer.close()
    (found,) = cli("groups", "describe", group, "--json").json
    rows = {row["partition"]: (row["current_offset"], row["lag"]) for row in found["partitions"]}
    assert rows == {0: (2, 1), 1: (None, 3), 2: (None, 0)}
    assert found["lag"] == 4
    assert found["partitions"][1]["lag_seconds"] >= 0


def test_a_group_that_ends_meanwhile_is_left_out_of_all(
    cli: Shell, topic: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("groups", "reset-offsets", group, "--topic", topic, "--to-earliest", "--execute")
    monkeypatch.setattr(describe_groups, "all_groups", lambda _: [group, f"{group}-gone"])
    found = cli("groups", "describe", "--all", "--no-lag-seconds", "--json").json
    assert [each["group"] for each in found] == [group]
    assert "GROUP_ID_NOT_FOUND" in cli("groups", "describe", f"{group}-gone", code=1).stderr


def test_a_topic_that_is_deleted_meanwhile_has_no_lag(
    shell: Shell, broker: KBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = ("-b", broker.bootstrap)
    shell("topics", "create", "kept", "gone", "--partitions", 1, *server)
    shell(
        "groups", "reset-offsets", "mixed", "--topic", "kept", "--topic", "gone", "--to-earliest", "--execute", *server
    )  # fmt: skip
    there = group_description._there

    def deleted(partitions: Any, existing: Any) -> Any:
        found = there(partitions, existing)
        shell("topics", "delete", "gone", "--yes", *server)
        return found

    monkeypatch.setattr(group_description, "_there", deleted)
    (found,) = shell("groups", "describe", "mixed", "--no-lag-seconds", "--json", *server).json
    assert {row["topic"] for row in found["partitions"] if row["lag"] is not None} == {"kept"}


@pytest.mark.parametrize("in_seconds", [False, True])
def test_a_partition_without_a_leader_has_no_lag_and_hides_no_other(
    monkeypatch: pytest.MonkeyPatch, in_seconds: bool
) -> None:
    asked: list[set[tuple[str, int]]] = []

    def offsets(_broker: object, _admin: object, _spec: object, partitions: Any, **_: object) -> Any:
        asked.append(set(partitions))
        return dict.fromkeys(partitions, (10, -1))

    leaders = {0: 1, 1: -1, 2: 1}
    parts = {number: SimpleNamespace(leader=leader) for number, leader in leaders.items()}
    metadata = SimpleNamespace(topics={"t": SimpleNamespace(partitions=parts)})
    admin: Any = SimpleNamespace(list_topics=lambda timeout: metadata)
    broker: Any = SimpleNamespace(timeout_s=1.0)
    monkeypatch.setattr(group_description, "list_offsets", offsets)
    monkeypatch.setattr(group_description, "first_timestamps", lambda *_: {})
    group = Group("g", "Empty", "classic", "", 1, [], {("t", 0): 7, ("t", 1): 7})
    group_description.read_lag(broker, admin, group, in_seconds=in_seconds)
    assert asked == [{("t", 2)}, {("t", 0), ("t", 2)}]
    assert [group.lag(("t", number)) for number in range(3)] == [3, None, 0]
    assert group.partitions() == [("t", 0), ("t", 1), ("t", 2)]


def watching(target: Target, *options: str) -> AbstractContextManager["subprocess.Popen[bytes]"]:
    command = [
        sys.executable,
        "-m",
        "kbroker",
        "groups",
        "describe",
        "-b",
        target.bootstrap,
        "--watch",
        "0.5",
    ]
    return program([*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_a_watched_group_is_a_line_of_json_at_each_look(
    cli: Shell, topic: str, group: str, target: Target
) -> None:
    cli("produce", topic, "-p", 0, "-q", stdin=b"a\nb\n")
    cli("consume", topic, "-g", group, "--from-beginning", "-n", 1, "-q")
    with watching(target, group, "--json") as running:
        assert running.stdout is not None
        assert json.loads(running.stdout.readline())[0]["lag"] == 1
        cli("produce", topic, "-p", 0, "-q", stdin=b"c\n")
        while json.loads(running.stdout.readline())[0]["lag"] < 2:
            pass
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=90)
        assert (running.returncode, errors) == (0, b"")


def test_a_screen_is_cleared_on_a_terminal_only(cli: Shell, topic: str, group: str, target: Target) -> None:
    cli("produce", topic, "-p", 0, "-q", stdin=b"a\n")
    cli("consume", topic, "-g", group, "--from-beginning", "-n", 1, "-q")
    with watching(target, group, "--no-lag-seconds") as running:
        assert running.stdout is not None
        shown = b"".join(running.stdout.readline() for _ in range(12)).decode()
        running.stdout.close()
        assert running.stderr is not None
        assert running.stderr.read() == b""
        running.wait(90)
    assert CLEAR not in shown
    assert shown.count(f"{group}  state=Empty") >= 2


def test_a_wrong_interval_is_refused(shell: Shell) -> None:
    for wrong in ("0", "nan", "-1"):
        assert "--watch" in shell("groups", "describe", "g", "--watch", wrong, code=2).stderr


@pytest.mark.parametrize(
    ("line", "read_as"),
    [
        ("g --watch", "g --watch 2"),
        ("--watch g", "--watch 2 g"),
        ("g --watch --json", "g --watch 2 --json"),
        ("g --watch 0.5 --json", "g --watch 0.5 --json"),
        ("g --watch=3", "g --watch=3"),
        ("g", "g"),
    ],
)
def test_the_interval_has_a_default(line: str, read_as: str) -> None:
    assert with_interval(line.split()) == read_as.split()


def test_a_group_is_watched_without_a_number(shell: Shell) -> None:
    unreachable = ("-b", "127.0.0.1:1", "--timeout", "0.5")
    assert (
        "requires an argument" not in shell("groups", "describe", "g", "--watch", *unreachable, code=3).stderr
    )


def test_a_reading_that_fails_or_hangs_is_given_up_with_its_connection(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A client of librdkafka may not find the coordinator of a broker that was killed and is back,
    and the client libraries have waits without an end."""
    end = threading.Event()
    used: list[Connection] = []

    def read(broker: Connection, *_: object) -> list[Group]:
        used.append(broker)
        if len(used) == 2:
            end.wait()
        if len(used) == 4:
            raise Unreachable("away")
        return []

    monkeypatch.setattr(describe_groups, "_read", read)
    broker = Connection("127.0.0.1:1", {"client.id": "me"}, 0.02)
    reading = partial(describe_groups._read_in_time, [broker], broker.again, ["g"], False)
    shown = again_and_again(reading, 0.0)
    assert [next(shown) for _ in range(4)] == [[]] * 4
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["no answer within 0.08 s; trying again", "away; trying again"]
    clients = [used.index(each) for each in used]
    assert clients == [0, 0, 2, 2, 4, 4]
    assert all((each.bootstrap, each.settings) == (broker.bootstrap, broker.settings) for each in used)
    end.set()


@pytest.mark.compat
def test_a_watched_group_is_shown_again_once_its_broker_is_back(
    shell: Shell, broker_factory: BrokerFactory, group: str
) -> None:
    node = broker_factory()
    at = ("-b", node.bootstrap)
    shell("topics", "create", "watched", *at)
    shell("produce", "watched", "-q", *at, stdin=b"a\nb\n")
    shell("consume", "watched", "-g", group, "--from-beginning", "-n", 1, "-q", *at)
    target = Target("kbroker", node.bootstrap, node.data_dir)
    with watching(target, group, "--json", "--timeout", "15") as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert json.loads(running.stdout.readline())[0]["lag"] == 1
        node.kill9()
        assert running.stderr.readline().endswith(b"; trying again\n")
        node.start()
        shell("produce", "watched", "-q", *at, stdin=b"c\n")
        while json.loads(running.stdout.readline())[0]["lag"] < 2:
            pass
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=90)
        assert (running.returncode, errors) == (0, b"")


@pytest.mark.parametrize("json_lines", [False, True])
def test_names_that_a_client_chose_control_no_terminal(
    json_lines: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    member = Member("m", None, "client\x9b2J\u2028", "h", [])
    group = Group("g", "Stable", "classic", "range\x9b2J", 1, [member])
    describe_groups._print_round([group], members=True, json=json_lines)
    shown = capsys.readouterr().out
    assert "\x9b" not in shown
    assert "\u2028" not in shown
    if json_lines:
        assert json.loads(shown)[0]["members"][0]["client_id"] == member.client_id


def test_all_groups_are_those_that_commit_offsets() -> None:
    """`kbroker move` moves the offsets of these."""
    kinds = {
        "a": ("Classic", "consumer"),
        "b": ("Consumer", "consumer"),
        "c": ("Streams", "streams"),
        "d": ("Share", "share"),
        "e": ("Classic", "connect"),
        "f": ("Classic", ""),
        "g": (None, "consumer"),
    }
    rows = [
        {"group_id": name, "group_type": kind, "protocol_type": protocol}
        for name, (kind, protocol) in kinds.items()
    ]
    admin = SimpleNamespace(list_groups=lambda: rows)
    broker: Any = SimpleNamespace(kafka_python_admin=lambda: nullcontext(admin))
    assert all_groups(broker) == ["a", "b", "c", "f", "g"]

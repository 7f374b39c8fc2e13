"""Logs move between the log dirs of a broker, while they are in use."""

from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest

from kbroker.cli.connection import Connection
from kbroker.cli.failures import CommandFailed
from kbroker.cli.move_logs import LogDirs
from tests.cli.conftest import Shell
from tests.peer.apache_kafka import QUICK_START, ApacheKafka
from tests.peer.kbroker_node import KBroker

Dirs = tuple[str, str]


@pytest.fixture(scope="module")
def dirs(tmp_path_factory: pytest.TempPathFactory) -> Dirs:
    """Two log dirs."""
    folder = tmp_path_factory.mktemp("dirs")
    return str(folder / "logs"), str(folder / "second")


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("kafka", marks=pytest.mark.kafka),
        pytest.param("kbroker", marks=pytest.mark.compat),
    ],
)
def bootstrap(request: pytest.FixtureRequest, dirs: Dirs) -> Iterator[str]:
    """A broker with two log dirs: Apache Kafka, then kbroker."""
    folder, settings = Path(dirs[0]).parent, {"log.dirs": ",".join(dirs), "node.id": "1"}
    node: ApacheKafka | KBroker
    if request.param == "kafka":
        request.getfixturevalue("kafka_jars")
        node = ApacheKafka(folder, jvm=QUICK_START)
        node.start(settings)
    else:
        settings["log.dirs"] = ",".join(f"{each}-kbroker" for each in dirs)
        node = KBroker(folder, settings)
        node.start()
    yield node.bootstrap
    node.stop()


@pytest.fixture
def cli(shell: Shell, bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Runs command lines against the broker with two log dirs."""
    monkeypatch.setenv("KBROKER_BOOTSTRAP", bootstrap)
    return shell


def places(cli: Shell, topic: str) -> dict[int, str]:
    """The log dir of each partition."""
    found = cli("cluster", "log-dirs", "--topic", topic, "--json").json
    return {
        part["partition"]: entry["log_dir"]
        for entry in found
        for part in entry["partitions"]
        if not part["future"]
    }


def paths(cli: Shell) -> list[str]:
    return [entry["log_dir"] for entry in cli("cluster", "log-dirs", "--json").json]


def test_a_topic_moves_with_its_records(cli: Shell) -> None:
    cli("topics", "create", "moved", "--partitions", 3)
    cli("produce", "moved", stdin=b"".join(b"record %d\n" % number for number in range(500)))
    one, _ = paths(cli)
    done = cli("topics", "move-logs", "moved", "--to", one, "--wait")
    assert places(cli, "moved") == dict.fromkeys(range(3), one)
    assert all(line.endswith(one) for line in done.lines[1:])
    assert "moved" in done.stderr.splitlines()[-1]
    read = cli("consume", "moved", "--from-beginning", "--until-end", "--quiet").lines
    assert sorted(read) == sorted(f"record {number}" for number in range(500))
    again = cli("topics", "move-logs", "moved", "--to", one, "--wait")
    assert "every log is where it should be" in again.stderr


def test_only_named_partitions_move(cli: Shell) -> None:
    cli("topics", "create", "some", "--partitions", 3)
    one, other = paths(cli)
    cli("topics", "move-logs", "some", "--to", one, "--wait")
    cli("topics", "move-logs", "some:1", "--to", other, "--wait")
    assert places(cli, "some") == {0: one, 1: other, 2: one}


def test_a_log_dir_is_emptied(cli: Shell) -> None:
    cli("topics", "create", "spread", "--partitions", 4)
    one, other = paths(cli)
    assert set(places(cli, "spread").values()) == {one, other}
    cli("topics", "move-logs", "--from", one, "--wait")
    emptied = next(entry for entry in cli("cluster", "log-dirs", "--json").json if entry["log_dir"] == one)
    assert emptied["partitions"] == []
    assert places(cli, "spread") == dict.fromkeys(range(4), other)


def test_an_unknown_log_dir_is_named_with_the_known_ones(cli: Shell) -> None:
    cli("topics", "create", "stays")
    before = places(cli, "stays")
    for option in ("--to", "--from"):
        refused = cli("topics", "move-logs", "stays", option, "/nowhere", code=1).stderr
        assert "/nowhere is not an online log dir" in refused
        assert all(path in refused for path in paths(cli))
    assert places(cli, "stays") == before


def test_it_asks_what_to_move(shell: Shell) -> None:
    assert "name topics, or a log dir with --from" in shell("topics", "move-logs", code=2).stderr


def entry(
    path: str, room: int, *sizes: int, cordoned: bool = False, future: bool = False
) -> dict[str, object]:
    parts = [
        {"partition_index": number, "partition_size": size, "offset_lag": 0, "is_future_key": future}
        for number, size in enumerate(sizes)
    ]
    topics = [{"name": "t", "partitions": parts}]
    return {
        "log_dir": path, "error_code": 0, "usable_bytes": room, "is_cordoned": cordoned, "topics": topics,
    }  # fmt: skip


def test_logs_go_where_most_room_is_left() -> None:
    dirs = [entry("/from", 0, 50, 40, 30), entry("/a", 100), entry("/b", 90), entry("/c", 999, cordoned=True)]
    found = LogDirs([{"broker": 1, "log_dirs": dirs}])
    assert [found.with_most_space(log) for log in found.logs] == ["/a", "/b", "/a"]


def test_a_broken_log_dir_is_no_target() -> None:
    broken = {**entry("/broken", 999), "error_code": 56}
    found = LogDirs([{"broker": 1, "log_dirs": [entry("/from", 0, 1), broken]}])
    with pytest.raises(CommandFailed, match="no other log dir for t-0"):
        found.with_most_space(found.logs[0])


def test_a_log_that_is_being_copied_is_one_log() -> None:
    found = LogDirs([{"broker": 1, "log_dirs": [entry("/a", 5, 10), entry("/b", 5, 4, future=True)]}])
    (log,) = found.logs
    assert (log.log_dir, log.moving_to, log.bytes) == ("/a", "/b", 10)


class Client:
    """An admin client with these answers of DescribeLogDirs, one after the other."""

    def __init__(self, *log_dirs: list[dict[str, object]]) -> None:
        self.answers = [[{"broker": 1, "log_dirs": each}] for each in log_dirs]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def describe_log_dirs(self) -> list[dict[str, object]]:
        return self.answers.pop(0)

    def alter_replica_log_dirs(self, targets: dict[object, str]) -> dict[object, object]:
        assert targets == {}
        return {}


def test_the_move_of_an_earlier_command_is_waited_for(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after Ctrl-C: the log dir is empty when the command ends."""
    copied = [entry("/a", 5, 10), entry("/b", 5, 4, future=True)]
    client = Client(copied, copied, [entry("/a", 5), entry("/b", 5, 10)])
    monkeypatch.setattr(Connection, "kafka_python_admin", lambda _: client)
    monkeypatch.setattr("kbroker.cli.move_logs.CHECK_SECONDS", 0)
    done = shell("topics", "move-logs", "--from", "/a", "--wait")
    assert done.stderr == "1 log still moving, 10 B\n1 log moved\n"
    assert client.answers == []


def test_a_log_that_is_gone_with_its_log_dir_has_not_moved(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a failing disk is emptied."""
    failed = {**entry("/a", 0), "error_code": 56}
    copied = [entry("/a", 5, 10, 10), entry("/b", 5, 4, 4, future=True)]
    client = Client(copied, [failed, entry("/b", 5, 10)])  # t-0 arrived in time
    monkeypatch.setattr(Connection, "kafka_python_admin", lambda _: client)
    refused = shell("topics", "move-logs", "--from", "/a", "--wait", code=1)
    assert "not moved: t-1;" in refused.stderr


def test_a_log_that_was_deleted_meanwhile_is_not_waited_for(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client([entry("/a", 5, 10), entry("/b", 5, 4, future=True)], [entry("/a", 5), entry("/b", 5)])
    monkeypatch.setattr(Connection, "kafka_python_admin", lambda _: client)
    assert shell("topics", "move-logs", "--from", "/a", "--wait").stderr == "1 log moved\n"


def test_a_move_of_an_earlier_command_is_reported(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client([entry("/a", 5, 10), entry("/b", 5, 4, future=True)])
    monkeypatch.setattr(Connection, "kafka_python_admin", lambda _: client)
    assert shell("topics", "move-logs", "--from", "/a").stderr.startswith("moving; ")


def test_a_log_that_is_being_copied_elsewhere_is_kept(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """A move to the log dir of a log ends the move to another one."""
    requested: list[dict[object, str]] = []

    def alter(targets: dict[object, str]) -> dict[object, object]:
        requested.append(targets)
        return {}

    client = Client(
        [entry("/a", 5, 10), entry("/b", 5, 4, future=True)], [entry("/a", 5, 10), entry("/b", 5)]
    )
    monkeypatch.setattr(Connection, "kafka_python_admin", lambda _: client)
    monkeypatch.setattr(client, "alter_replica_log_dirs", alter)
    done = shell("topics", "move-logs", "--from", "/a", "--to", "/a", "--wait")
    assert requested == [{("t", 0, 1): "/a"}]
    assert done.lines[-1].endswith("/a")


def test_a_cordoned_log_dir_is_refused_as_target(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client([entry("/a", 5, 10), entry("/b", 5, cordoned=True)])
    monkeypatch.setattr(Connection, "kafka_python_admin", lambda _: client)
    refused = shell("topics", "move-logs", "--from", "/a", "--to", "/b", code=1)
    assert "/b is cordoned: cordoned.log.dirs keeps logs out of it" in refused.stderr

"""A backup knows the folder of every partition, or is refused."""

from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.cli.backup.commands import _refuse_moved
from kbroker.cli.backup.folders import Folders, folders_of
from kbroker.cli.failures import CommandFailed
from kbroker.cli.log_dirs import DescribedLog, DescribedLogDir


class Broker:
    """Broker 1 with a log dir /data, which has the logs of `logs`; its user may describe
    `topics`."""

    timeout_s = 1.0

    def __init__(self, logs: list[str], topics: list[str], error_code: int = 0) -> None:
        found = tuple(DescribedLog(name, 0, 1, 0, False) for name in logs)
        self.log_dirs = [DescribedLogDir(1, "/data", error_code, None, None, False, found)]
        self._topics = topics

    def admin(self) -> Any:
        partitions = {0: SimpleNamespace(id=0, leader=1)}
        topics = {name: SimpleNamespace(topic=name, partitions=partitions) for name in self._topics}
        return SimpleNamespace(list_topics=lambda timeout: SimpleNamespace(topics=topics))


@pytest.fixture(autouse=True)
def log_dirs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kbroker.cli.backup.folders.all_log_dirs", lambda broker: broker.log_dirs)


def found(broker: Broker, *expected: str) -> Folders:
    return folders_of(broker, [(name, 0) for name in expected])  # type: ignore[arg-type]


def test_each_partition_has_the_folder_of_its_leader() -> None:
    assert found(Broker(["a", "b"], ["a", "b"]), "a", "b") == Folders(
        ["/data"], {("a", 0): "/data/a-0", ("b", 0): "/data/b-0"}
    )


def test_topics_that_the_user_may_not_describe_are_named() -> None:
    with pytest.raises(CommandFailed, match=r"may not describe b, c, d, \.\.\.: the backup would lack them"):
        found(Broker(["a", "b", "c", "d", "e"], ["a"]), "a")


def test_a_topic_that_is_created_or_deleted_meanwhile_is_not_hidden() -> None:
    assert ("b", 0) in found(Broker(["a", "b"], ["a", "b"]), "a").leaders
    assert set(found(Broker(["a", "b"], ["a"]), "a", "b").leaders) == {("a", 0)}
    assert set(found(Broker(["a"], ["a"]), "a", "b").leaders) == {("a", 0)}


def test_an_offline_log_dir_or_partition_is_refused() -> None:
    with pytest.raises(CommandFailed, match="log dir /data is offline: `kbroker status`"):
        found(Broker([], ["a"], error_code=56), "a")
    with pytest.raises(CommandFailed, match="a-0 is offline: `kbroker status`"):
        found(Broker([], ["a"]), "a")


def test_a_partition_that_moved_meanwhile_is_not_left_out_silently() -> None:
    now = Broker(["a", "b"], ["a", "b"])
    before = Folders(["/data", "/old"], {("a", 0): "/old/a-0", ("b", 0): "/data/b-0", ("c", 0): "/data/c-0"})
    broker: Any = now
    with pytest.raises(CommandFailed, match="a-0 moved to another log dir meanwhile: take the backup again"):
        _refuse_moved(broker, before, {("a", 0)})
    _refuse_moved(broker, before, {("b", 0), ("c", 0)})  # created again, deleted

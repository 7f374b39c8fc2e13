"""Messages of control to an IO worker: each one gets a reply, whatever becomes of it."""

import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.io import openings
from kbroker.io.commands import Commands, DeletionCalls, LogCommands
from kbroker.io.files.producer_snapshot import ProducerEntry
from kbroker.ipc.layout import Slot, SlotState
from kbroker.ipc.messages import (
    ClosePartition,
    ConfigurePartition,
    DeleteRecords,
    DescribeProducers,
    EpochEndOffset,
    OpenPartition,
    Reply,
    SetLeaderEpoch,
)
from kbroker.protocol.errors import ErrorCode, KafkaError
from tests.io.append.plain_append import NOW, Log, topic_config
from tests.io.three_logs import EMPTY, ThreeLogs
from tests.log.batch_bytes import batch

SLOTS = (3, 4)
UNKNOWN = 9


class Scene:
    """The logs of two partitions, which are all that this worker has."""

    def __init__(self, root: Path) -> None:
        self.opened = {slot: Log(root, slot=slot, topic=f"t{slot}") for slot in SLOTS}
        for log in self.opened.values():
            log.open(epoch=0)
        logs: Any = SimpleNamespace(
            require=self._require,
            delete_records=self._delete_records,
            configure=lambda log, config: log.configure(config),
        )
        self.commands = Commands(LogCommands(logs).handlers)

    def _require(self, slot: int) -> Any:
        if slot not in self.opened:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"no log in slot {slot}")
        return self.opened[slot].partition

    def _delete_records(self, slot: int, offset: int) -> int:
        if slot == UNKNOWN:
            raise OSError(28, "No space left on device")
        return offset + 1

    def reply(self, body: Any) -> Reply:
        return self.commands.handle(17, body)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_an_unknown_message_has_a_reply(scene: Scene) -> None:
    reply = scene.reply(SimpleNamespace())
    assert (reply.call_id, reply.value, reply.error) == (17, None, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert "unknown message" in reply.message


def test_a_failed_command_has_a_reply(scene: Scene) -> None:
    refused = scene.reply(SetLeaderEpoch(UNKNOWN, 2))
    assert (refused.value, refused.error) == (None, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert "no log in slot 9" in refused.message
    full = scene.reply(DeleteRecords(UNKNOWN, 5))
    assert (full.value, full.error) == (None, ErrorCode.KAFKA_STORAGE_ERROR)
    assert "No space left" in full.message
    assert scene.reply(DeleteRecords(3, 5)) == Reply(17, 6)


def test_new_settings_are_those_of_one_log(scene: Scene) -> None:
    compact = topic_config(cleanup_policy="compact")
    assert scene.reply(ConfigurePartition(4, compact)) == Reply(17)
    assert [scene.opened[slot].partition.config.compact for slot in SLOTS] == [False, True]
    assert scene.reply(ConfigurePartition(UNKNOWN, compact)).error == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_an_epoch_ends_where_the_next_one_begins(scene: Scene) -> None:
    log = scene.opened[3]
    log.append(batch(0, [b"v", b"w"], [NOW, NOW]))
    assert scene.reply(SetLeaderEpoch(3, 4)) == Reply(17)
    log.append(batch(0, [b"x"], [NOW]))
    assert log.words[Slot.LEADER_EPOCH] == 4
    assert scene.reply(EpochEndOffset(3, 0)) == Reply(17, (0, 2))
    assert scene.reply(EpochEndOffset(3, 4)) == Reply(17, (4, 3))
    assert scene.reply(EpochEndOffset(3, 5)) == Reply(17, (-1, -1))


def test_producers_of_several_logs_end_at_the_limit(scene: Scene) -> None:
    for slot, ids in ((3, (5, 6, 7)), (4, (8,))):
        for producer in ids:
            scene.opened[slot].producers.put(slot, ProducerEntry(producer, 0, -1, NOW, -1))

    def found(slots: tuple[int, ...], **how: int) -> list[list[int] | int]:
        answer = scene.reply(DescribeProducers(slots, **how)).value
        return [each if isinstance(each, int) else [state[0] for state in each] for each in answer]

    assert found((3, 4)) == [[5, 6, 7], [8]]
    assert found((3, 4), after=5) == [[6, 7], [8]], "the first producer is that of the first slot alone"
    assert found((3, 4), limit=2) == [[5, 6]]
    assert found((3, 4), limit=3) == [[5, 6, 7]]
    assert found((3, 4), limit=4) == [[5, 6, 7], [8]]
    assert found((UNKNOWN, 4), limit=1) == [int(ErrorCode.NOT_LEADER_OR_FOLLOWER), [8]]


class SlowOpening:
    """A new log that is opened once `go` is set, beside three open ones."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        scene = ThreeLogs(root)
        self.log_dir = Path(scene.paths[0])
        self.logs = scene.logs
        self.states = scene.shared.slots[:, Slot.STATE]
        self.events: list[tuple[str, int]] = []
        self.deletions = DeletionCalls(
            self.logs,
            [lambda slot: self.events.append(("before", slot))],
            lambda slot: self.events.append(("after", slot)),
        )
        self.go = threading.Event()
        create = openings.create_folder

        def later(folder: str, topic_id: bytes) -> bool:
            assert self.go.wait(30)
            return create(folder, topic_id)

        monkeypatch.setattr(openings, "create_folder", later)

    def open(self, call_id: int) -> None:
        log_dir = str(self.log_dir)
        call = OpenPartition(EMPTY, 1, "new", 0, b"t" * 16, log_dir, 0, topic_config(), new=True)
        self.logs.open(call, call_id)

    def opened(self) -> list[Reply]:
        """The replies, once it is open."""
        self.go.set()
        replies: list[Reply] = []
        while self.logs.is_opening(EMPTY):
            replies += self.logs.take_opened(lambda _: (0, ""))
            time.sleep(0.001)
        return replies

    @property
    def folders(self) -> list[str]:
        return sorted(path.name.partition(".")[0] for path in self.log_dir.iterdir() if path.is_dir())


def test_deleted_logs_are_forgotten_around_their_deletion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = SlowOpening(tmp_path, monkeypatch)
    for call_id, slot in ((5, 0), (6, EMPTY)):
        scene.deletions.add(call_id, ClosePartition(slot))
    assert scene.deletions.run() == [Reply(5), Reply(6)]
    assert scene.events == [("before", 0), ("before", EMPTY), ("after", 0), ("after", EMPTY)]
    assert scene.states[0] == scene.states[EMPTY] == SlotState.DELETED
    assert scene.deletions.run() == []


def test_a_log_that_is_being_opened_is_deleted_once_it_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deletion that was answered earlier left the log open and its folder on disk, while control
    gave the slot to another log."""
    scene = SlowOpening(tmp_path, monkeypatch)
    before = scene.folders
    scene.open(1)
    scene.deletions.add(2, ClosePartition(EMPTY))
    scene.deletions.add(3, ClosePartition(0))
    assert scene.deletions.run() == [Reply(3)]
    assert scene.opened() == [Reply(1)]
    assert scene.deletions.run() == [Reply(2)]
    assert scene.states[EMPTY] == SlotState.DELETED
    assert scene.logs.get(EMPTY) is None
    assert [name for name in scene.folders if name not in before] == ["new-0"]
    assert not (scene.log_dir / "new-0").exists()


def test_the_successor_of_control_gets_no_reply_to_calls_of_its_predecessor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own calls have the same ids: it took a log for open, or closed, that was not."""
    scene = SlowOpening(tmp_path, monkeypatch)
    scene.open(1)
    scene.deletions.add(2, ClosePartition(EMPTY))
    scene.deletions.add(3, ClosePartition(0))
    scene.logs.open(OpenPartition(1, 1, "t1", 0, b"t" * 16, str(scene.log_dir), 0, topic_config()), 4)
    scene.logs.forget_calls()
    scene.deletions.clear()
    scene.open(7)
    assert scene.opened() == [Reply(7)]
    assert scene.deletions.run() == []
    assert scene.states[EMPTY] == scene.states[0] == SlotState.ONLINE

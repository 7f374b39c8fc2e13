"""What a log with several replicas says of itself while its leaders change."""

from pathlib import Path

import pytest

from kbroker.ipc.layout import Slot
from tests.io.append.plain_append import Log
from tests.log.batch_bytes import batch


def reopened(log: Log, leads: bool, mark: int | None) -> Log:
    """As the successor of an IO worker opens it. mark: the high watermark that it finds in shared
    memory."""
    log.partition.close()
    log.__post_init__()
    log.replicated, log.leads, log.known_mark = True, leads, mark
    log.open(epoch=1)
    return log


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """With three records."""
    made = Log(tmp_path)
    made.open()
    for _ in range(3):
        made.append(batch(0, [b"v"]))
    return made


def is_behind(log: Log) -> bool:
    """Whether nobody is told where the log ends."""
    return bool(log.words[Slot.HIGH_WATERMARK] < log.words[Slot.EPOCH_START])


@pytest.mark.parametrize("mark", [None, 1])
def test_a_leader_does_not_tell_its_end_before_its_mark_is_at_the_start_of_its_epoch(
    log: Log, mark: int | None
) -> None:
    opened = reopened(log, leads=True, mark=mark).partition
    assert is_behind(log), "it is online, though nobody has told it to lead yet"
    opened.role.lead(2)
    assert is_behind(log)
    opened.role.publish_high_watermark(2)
    assert is_behind(log)
    opened.role.publish_high_watermark(3)
    assert not is_behind(log)
    log.append(batch(0, [b"later"]))
    assert not is_behind(log)


def test_a_follower_does_not_tell_its_end(log: Log) -> None:
    opened = reopened(log, leads=False, mark=3).partition
    assert is_behind(log)
    opened.role.follow(2)
    assert is_behind(log)
    opened.role.lead(3)
    assert not is_behind(log)
    opened.role.resign()
    assert is_behind(log)


def test_a_single_replica_publishes_its_end_at_once(log: Log) -> None:
    assert not is_behind(log)

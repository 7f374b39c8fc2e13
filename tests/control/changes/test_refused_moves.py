"""Moves between log dirs that cannot be: none begins, and each is refused for its own reason."""

import asyncio
import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbroker.ipc.layout import Slot, SlotState
from kbroker.protocol.errors import ErrorCode, KafkaError
from tests.control.changes.log_dir_move_case import Case
from tests.control.fakes import world


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    with world(tmp_path, dirs=3) as made:
        yield Case(made)


def refused(case: Case, log_dir: str, partition: int = 0, topic: str = "t") -> ErrorCode:
    """The reason; the IO worker was asked nothing, and no move is pending."""
    with pytest.raises(KafkaError) as caught:
        asyncio.run(case.moves.alter(topic, partition, log_dir, 0))
    assert not case.calls
    assert asyncio.run(case.targets()) == []
    return caught.value.code


def test_a_log_dir_that_the_broker_does_not_have(case: Case) -> None:
    assert refused(case, f"{case.there}x") == ErrorCode.LOG_DIR_NOT_FOUND


def test_a_partition_that_does_not_exist(case: Case) -> None:
    assert refused(case, case.there, 1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refused(case, case.there, 0, "u") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("failed", ["target", "other"])
def test_a_log_dir_that_is_offline(case: Case, failed: str) -> None:
    """Even if it is neither of the two."""
    other = next(one for one in case.world.dirs if one not in (case.here, case.there))
    case.world.broker.dir_errors.fail(case.there if failed == "target" else other, errno.EIO)
    assert refused(case, case.there) == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_log_that_is_offline(case: Case) -> None:
    case.world.shared.slots[case.partition.slot, Slot.STATE] = SlotState.OFFLINE
    assert refused(case, case.there) == ErrorCode.KAFKA_STORAGE_ERROR

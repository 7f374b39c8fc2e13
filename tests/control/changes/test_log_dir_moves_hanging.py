"""Moves between log dirs whose IO worker hangs when it is to continue in the new one."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbroker.control.changes import log_dir_moves
from kbroker.ipc.move_messages import BeginMove, FinishMove, SwitchMove
from kbroker.protocol.errors import ErrorCode, KafkaError
from tests.control.changes.log_dir_move_case import Case
from tests.control.fakes import world


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    with world(tmp_path, dirs=2) as made:
        yield Case(made)


def test_an_end_that_is_not_answered_lets_other_changes_continue_and_the_next_move_wait(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It held the lock of changes as long as the disk hung."""
    monkeypatch.setattr(log_dir_moves, "ANSWER_S", 0.05)
    monkeypatch.setattr(log_dir_moves, "SWITCH_S", 0.05)

    async def script() -> None:
        await case.alter(case.there)
        answer = asyncio.get_running_loop().create_future()
        case.replies[FinishMove] = lambda: answer
        await case.caught_up()
        async with case.world.broker.changing:
            assert case.stored() == case.partition.log_dir == case.there
        with pytest.raises(KafkaError) as refused:
            await case.alter(case.here)
        assert refused.value.code is ErrorCode.REQUEST_TIMED_OUT
        assert case.calls[1:] == [SwitchMove(*case.key), FinishMove(case.key[0], case.there)]
        monkeypatch.setattr(log_dir_moves, "ANSWER_S", 600.0)
        answer.set_result(None)
        await case.alter(case.here)
        assert case.calls[3:] == [BeginMove(*case.key, case.here)]

    asyncio.run(asyncio.wait_for(script(), 30))


def test_an_end_that_fails_late_is_logged(
    case: Case, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(log_dir_moves, "SWITCH_S", 0.05)

    async def script() -> None:
        await case.alter(case.there)
        answer = asyncio.get_running_loop().create_future()
        case.replies[FinishMove] = lambda: answer
        await case.caught_up()
        answer.set_exception(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        await case.moves._late.wait(30)

    asyncio.run(asyncio.wait_for(script(), 30))
    assert "could not be resumed or ended" in caplog.text

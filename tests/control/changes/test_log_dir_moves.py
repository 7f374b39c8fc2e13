"""Control's side of moves between log dirs: what was answered holds, whichever process dies or is
faster."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kbroker.config.alter import Alteration
from kbroker.control import log_openings
from kbroker.control.changes import log_dir_moves
from kbroker.control.changes.config_change import alter
from kbroker.control.changes.topic_change import delete_topics
from kbroker.control.late_openings import open_late
from kbroker.control.metadata.config_resource import BROKER
from kbroker.ipc.link import LinkClosed
from kbroker.ipc.messages import OpenPartition
from kbroker.ipc.move_messages import (
    BeginMove,
    CancelMove,
    FinishMove,
    MoveFailed,
    MovesInProgress,
    SwitchMove,
)
from kbroker.protocol.errors import ErrorCode, KafkaError
from tests.control.changes.log_dir_move_case import Case
from tests.control.fakes import world

HEX = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    with world(tmp_path, dirs=2) as made:
        yield Case(made)


def test_a_move_is_stored_then_announced_then_finished(case: Case) -> None:
    async def script() -> None:
        await case.alter(case.there)
        await case.caught_up()
        assert await case.targets() == []

    asyncio.run(script())
    assert case.calls == [case.begin, SwitchMove(*case.key), FinishMove(case.key[0], case.there)]
    assert case.stored() == case.partition.log_dir == case.there
    assert case.world.network.topics["t"].partitions[0].folder == f"{case.there}/t-0"


@pytest.mark.parametrize("whole", [False, True])
def test_control_that_takes_over_knows_of_the_move(whole: bool, case: Case) -> None:
    """Whether or not the IO workers and all else have died along with its predecessor."""
    asyncio.run(case.alter(case.there))
    Path(case.there, f"t-0.{HEX}-future").mkdir()
    case.world.broker.close()
    if whole:
        case.world.reboot()
    else:
        case.world.start()
    case.prepare()

    async def script() -> None:
        assert await case.targets() == [case.there]
        link: Any = case.world.worker
        await case.moves.begin_again(0, link)
        assert case.calls[-1] == case.begin
        await case.alter(case.here)
        assert case.calls[-1] == CancelMove(case.key[0])
        assert await case.targets() == []

    asyncio.run(script())


def test_a_move_that_was_ended_is_not_taken_up_for_a_message_that_was_on_its_way(case: Case) -> None:
    async def script() -> None:
        await case.alter(case.there)
        await case.alter(case.here)
        await case.caught_up()
        assert await case.targets() == []

    asyncio.run(script())
    assert case.calls == [case.begin, CancelMove(case.key[0])]
    assert case.partition.log_dir == case.here


def test_a_cancel_during_the_switch_waits_for_the_switch(case: Case) -> None:
    """Or else the copy was removed that is stored as the log."""

    async def script() -> None:
        await case.alter(case.there)
        switched = asyncio.get_running_loop().create_future()
        case.replies[SwitchMove] = lambda: switched
        switching = asyncio.ensure_future(case.caught_up())
        while len(case.calls) < 2:
            await asyncio.sleep(0.001)
        ending = asyncio.ensure_future(case.alter(case.here))
        await asyncio.sleep(0.01)
        assert case.calls == [case.begin, SwitchMove(*case.key)]
        switched.set_result(True)
        await asyncio.gather(switching, ending)
        assert await case.targets() == [case.here]  # it is elsewhere by now, so this is a move back

    asyncio.run(script())
    assert case.calls[2:] == [FinishMove(case.key[0], case.there), BeginMove(*case.key, case.here)]
    assert case.stored() == case.there


@pytest.mark.parametrize("when", ["at once", "before it is stored"])
def test_nothing_is_decided_for_a_worker_that_is_gone(when: str, case: Case) -> None:
    """Its successor has opened the log where it was."""

    def gone() -> bool:
        case.moves.worker_started(0)
        if when == "at once":
            raise LinkClosed
        return True

    async def script() -> None:
        await case.alter(case.there)
        case.replies[SwitchMove] = gone
        await case.caught_up()
        assert await case.targets() == [case.there]  # it is begun again

    asyncio.run(script())
    assert case.calls == [case.begin, SwitchMove(*case.key)]
    assert case.stored() == case.partition.log_dir == case.here


def test_a_move_of_a_log_that_is_not_opened_is_refused_without_the_lock_of_changes(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_openings, "OPEN_S", 0.05)

    async def refused() -> None:
        async with asyncio.timeout(30), case.world.broker.changing:
            await case.alter(case.there)

    with case.world.broker.log_openings.opening(["t"]), pytest.raises(KafkaError) as error:
        asyncio.run(refused())
    assert error.value.code is ErrorCode.REQUEST_TIMED_OUT
    assert not case.calls


def test_no_log_is_moved_to_a_cordoned_log_dir(case: Case) -> None:
    def cordon(log_dirs: str) -> None:
        change = Alteration("cordoned.log.dirs", 0, log_dirs)
        asyncio.run(alter(case.world.broker, BROKER, "1", [change], False))

    cordon(case.there)
    with pytest.raises(KafkaError) as refused:
        asyncio.run(case.alter(case.there))
    assert refused.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert case.begin not in case.calls
    cordon("")
    asyncio.run(case.alter(case.there))
    assert case.begin in case.calls


@pytest.mark.parametrize("error", [None, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)])
def test_a_worker_that_hangs_holds_up_its_move_and_no_other_change(
    case: Case, monkeypatch: pytest.MonkeyPatch, error: KafkaError | None
) -> None:
    """A request for the move waited without a bound, with the lock of changes."""
    monkeypatch.setattr(log_dir_moves, "ANSWER_S", 0.05)

    async def script() -> None:
        answer = asyncio.get_running_loop().create_future()
        case.replies[BeginMove] = lambda: answer
        for _ in range(2):
            with pytest.raises(KafkaError) as refused:
                await case.alter(case.there)
            assert refused.value.code is ErrorCode.REQUEST_TIMED_OUT
            assert await case.targets() == [case.there]
        monkeypatch.setattr(log_dir_moves, "ANSWER_S", 600.0)
        again = asyncio.ensure_future(case.alter(case.there))
        await asyncio.sleep(0.01)
        assert not again.done()
        async with case.world.broker.changing:
            assert case.calls == [case.begin]
        answer.set_exception(error) if error else answer.set_result(None)
        if error:
            with pytest.raises(KafkaError):
                await again
        else:
            await again
        assert await case.targets() == ([] if error else [case.there])

    asyncio.run(asyncio.wait_for(script(), 60))
    assert case.calls == [case.begin]


def test_a_worker_that_hangs_delays_no_answer_about_moves(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DescribeLogDirs had no answer as long as the disk hung."""

    async def script() -> None:
        await case.alter(case.there)
        monkeypatch.setattr(log_dir_moves, "ANSWER_S", 0.05)
        case.replies[MovesInProgress] = lambda: asyncio.get_running_loop().create_future()
        (found,) = await case.moves.future_replicas()
        assert (found.log_dir, found.bytes) == (case.there, 0)

    asyncio.run(asyncio.wait_for(script(), 60))


def test_a_switch_that_is_not_answered_ends_the_move_and_lets_other_changes_continue(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It held the lock of changes as long as the disk hung."""
    monkeypatch.setattr(log_dir_moves, "SWITCH_S", 0.05)

    async def script() -> None:
        await case.alter(case.there)
        case.replies[SwitchMove] = lambda: asyncio.get_running_loop().create_future()
        await case.caught_up()
        async with case.world.broker.changing:
            assert await case.targets() == []
        await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(script(), 60))
    assert case.calls == [case.begin, SwitchMove(*case.key), CancelMove(case.key[0])]
    assert case.stored() == case.partition.log_dir == case.here


def test_the_end_of_a_move_follows_its_begin(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the worker dies in between, and its successor gets both calls."""
    monkeypatch.setattr(log_dir_moves, "ANSWER_S", 0.05)

    async def script() -> None:
        answer = asyncio.get_running_loop().create_future()
        case.replies[BeginMove] = lambda: answer
        for log_dir in (case.there, case.here, case.here):
            with pytest.raises(KafkaError) as refused:
                await case.alter(log_dir)
            assert refused.value.code is ErrorCode.REQUEST_TIMED_OUT
        assert await case.targets() == []
        assert case.calls == [case.begin]
        monkeypatch.setattr(log_dir_moves, "ANSWER_S", 600.0)
        answer.set_result(None)
        await case.alter(case.here)
        assert case.calls == [case.begin, CancelMove(case.key[0])]

    asyncio.run(asyncio.wait_for(script(), 60))


def test_nothing_is_switched_while_the_logs_of_the_topic_are_opened(case: Case) -> None:
    """Control has taken over: its OpenPartition call names the log dir of before, and would have
    the worker go on there."""

    async def script() -> None:
        await case.alter(case.there)
        with case.world.broker.log_openings.opening(["t", "t"]):
            await case.caught_up()
            assert case.calls == [case.begin]
        await case.caught_up()

    asyncio.run(script())
    assert case.calls == [case.begin, SwitchMove(*case.key), FinishMove(case.key[0], case.there)]
    assert case.stored() == case.there


def test_a_worker_that_starts_waits_for_a_decision(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    async def script() -> None:
        await case.alter(case.there)
        in_store = case.world.broker.in_store

        async def slow(step: Any) -> Any:
            waiting = asyncio.ensure_future(case.moves.decided(case.partition.leader))
            await asyncio.sleep(0.01)
            seen.append(waiting.done())
            done = await in_store(step)
            waiting.add_done_callback(lambda _: seen.append(case.partition.log_dir == case.there))
            return done

        monkeypatch.setattr(case.world.broker, "in_store", slow)
        await case.caught_up()
        while len(seen) < 2:
            await asyncio.sleep(0.001)

    asyncio.run(asyncio.wait_for(script(), 60))
    assert seen == [False, True]


def test_a_log_without_a_copy_in_another_dir_keeps_its_folder(case: Case) -> None:
    def refuse() -> None:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    async def script() -> None:
        await case.alter(case.there)
        case.replies[FinishMove] = refuse
        await case.caught_up()

    asyncio.run(script())
    assert Path(case.here, "t-0").is_dir()


def test_a_log_that_cannot_continue_where_it_was_moved_is_opened_there(case: Case) -> None:
    """It answered NOT_LEADER_OR_FOLLOWER until its worker restarted."""

    def full() -> None:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)

    async def script() -> None:
        await case.alter(case.there)
        case.replies[FinishMove] = full
        await case.caught_up()

    asyncio.run(script())
    opened = case.calls[-1]
    assert isinstance(opened, OpenPartition)
    assert (opened.slot, opened.log_dir) == (case.key[0], case.there)


def test_a_log_that_finds_no_room_where_it_was_moved_is_opened_when_there_is(case: Case) -> None:
    """It was offline until a restart."""
    versions, answers = list[int](), case.world.broker.cached_answers

    def full() -> None:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)

    def full_twice() -> None:
        versions.append(answers.topics)
        if len(versions) < 3:
            full()

    async def script() -> None:
        await case.alter(case.there)
        case.replies |= {FinishMove: full, OpenPartition: full_twice}
        await case.caught_up()
        assert [await open_late(case.world.broker) for _ in range(3)] == [0, 1, 0]

    asyncio.run(script())
    opened = case.calls[-3:]
    assert [type(one) for one in opened] == [OpenPartition] * 3
    assert {one.log_dir for one in opened} == {case.there}
    assert answers.topics > versions[-1], "a cached answer may show it as offline"


@pytest.mark.parametrize("ended", [False, True])
def test_the_move_of_a_log_that_is_opened_late_continues_then(case: Case, ended: bool) -> None:
    """It ended, although its copy was kept for the next start."""
    broker = case.world.broker

    def full() -> None:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)

    async def script() -> None:
        await case.alter(case.there)
        case.replies |= {OpenPartition: full, BeginMove: full}
        await broker.open_logs([(broker.catalogue.topics["t"], [case.partition])])
        case.moves.worker_started(0)
        link: Any = case.world.worker
        await case.moves.begin_again(0, link)
        assert await case.targets() == [case.there]
        case.replies = {MovesInProgress: lambda: ()}
        if ended:
            await case.alter(case.here)
        case.calls.clear()
        assert await open_late(broker) == 1
        await asyncio.sleep(0)

    asyncio.run(script())
    assert [one for one in case.calls if isinstance(one, BeginMove)] == [case.begin] * (not ended)


def test_a_log_that_is_deleted_before_there_is_room_is_not_opened(case: Case) -> None:
    broker = case.world.broker

    def full() -> None:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)

    async def script() -> None:
        await case.alter(case.there)
        case.replies |= {FinishMove: full, OpenPartition: full}
        await case.caught_up()
        await delete_topics(broker, lambda: [broker.catalogue.topics["t"]])
        case.calls.clear()
        assert await open_late(broker) == 0

    asyncio.run(script())
    assert OpenPartition not in {type(one) for one in case.calls}


def test_the_failure_of_one_move_does_not_end_another(case: Case) -> None:
    async def script() -> None:
        await case.alter(case.there)
        for slot, generation, log_dir in ((*case.key, case.here), (case.key[0], case.key[1] + 1, case.there)):
            case.moves.failed(MoveFailed(slot, generation, log_dir))
            assert await case.targets() == [case.there]
        case.moves.failed(MoveFailed(*case.key, case.there))
        assert await case.targets() == []

    asyncio.run(script())

"""The coordinator at work: markers until they are written, waits, verification for network
processes."""

import asyncio
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.control.changes.topic_change import create_topics, delete_topics
from kbroker.control.coordinator.runtime import Runtime
from kbroker.control.groups.service import GroupService
from kbroker.control.metadata.topic_name import TRANSACTION_STATE
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.control.transactions import marker_sender
from kbroker.control.transactions.metadata import TV_2
from kbroker.control.transactions.service import OLDEST_MS, OPEN, TIMED_OUT, TransactionService
from kbroker.control.transactions.verification import shown_error, verify
from kbroker.ipc.cached_answers import CachedAnswer
from kbroker.ipc.messages import VerifyTransaction
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kbroker.protocol.messages.end_txn import EndTxnRequest
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.messages.list_transactions import ListTransactionsRequest
from kbroker.protocol.records import ControlType
from tests.api.in_process import send
from tests.control.coordinator.runtime_scene import answer_of
from tests.control.fakes import World, world
from tests.control.transactions.logs_in_memory import Log

ID = "payments"
OFFSETS = "__consumer_offsets"


class Scene:
    """A transaction and a group coordinator over a log in memory, and one producer."""

    def __init__(self, made: World) -> None:
        self.broker = made.broker
        self.log = Log()
        loop = asyncio.get_running_loop()
        self.groups = Runtime(self.broker, self.log, OFFSETS, loop)
        self.group_service = GroupService(self.broker, self.groups, self.log)
        self.runtime = Runtime(self.broker, self.log, TRANSACTION_STATE, loop)
        self.service = TransactionService(self.broker, self.runtime, self.log, self.group_service)
        made.services.coordinate(self.group_service, self.service)
        self.services = made.services

    async def begin(self) -> None:
        await self.runtime.ready()
        await self.groups.ready()
        await create_topics(self.broker, [NewTopic("a", 2, 1)])
        request = InitProducerIdRequest(ID, 60_000)
        answer = await answer_of(self.service.init_producer_id(request))
        self.producer = (answer.producer_id, answer.producer_epoch)

    async def verify(self, version: int, *partitions: tuple[str, int]) -> list[tuple[int, str | None]]:
        requested = VerifyTransaction(ID, *self.producer, partitions, version)
        return list(await verify(self.services, requested))

    async def end(self, commit: bool = True) -> None:
        requested = self.service.end(EndTxnRequest(ID, *self.producer, commit), TV_2)
        answer = await answer_of(requested)
        self.producer = (answer.producer_id, answer.producer_epoch)

    def state(self) -> str:
        return self.service.shard.describe(ID).transaction_state


def run(folder: Path, test: Callable[[Scene], Awaitable[None]]) -> None:
    with world(folder) as made:

        async def body() -> None:
            scene = Scene(made)
            await scene.begin()
            try:
                await asyncio.wait_for(test(scene), 60)
            finally:
                scene.runtime.close()
                scene.groups.close()

        asyncio.run(body())


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries need not wait in tests."""
    monkeypatch.setattr(marker_sender, "RETRY_S", 0.001)


async def settled(scene: Scene, state: str) -> None:
    while scene.state() != state:
        await asyncio.sleep(0.001)


def test_markers_go_to_every_partition_and_then_it_is_complete(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        assert await scene.verify(12, ("a", 0), ("a", 1)) == [(0, None)] * 2
        await scene.end()
        await settled(scene, "CompleteCommit")
        assert scene.log.markers() == [("a", 0, ControlType.COMMIT, 1), ("a", 1, ControlType.COMMIT, 1)]

    run(tmp_path, test)


def test_marker_is_tried_again_until_it_is_written(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        await scene.verify(12, ("a", 0))
        scene.log.errors["a"] = [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER]
        await scene.end(commit=False)
        await settled(scene, "CompleteAbort")
        assert scene.log.markers() == [("a", 0, ControlType.ABORT, 1)]

    run(tmp_path, test)


@pytest.mark.parametrize("code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED])
def test_marker_that_is_there_already_is_not_waited_for(tmp_path: Path, code: ErrorCode) -> None:
    async def test(scene: Scene) -> None:
        await scene.verify(12, ("a", 0))
        scene.log.errors["a"] = [code]
        await scene.end()
        await settled(scene, "CompleteCommit")

    run(tmp_path, test)


def test_deleted_topic_does_not_keep_a_transaction_from_ending(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        await scene.verify(12, ("a", 0), ("a", 1))
        await delete_topics(scene.broker, lambda: [scene.broker.catalogue.topics["a"]])
        await scene.end()
        await settled(scene, "CompleteCommit")
        assert scene.log.markers() == []

    run(tmp_path, test)


def test_completion_is_stored_even_if_that_fails_at_first(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        await scene.verify(12, ("a", 0))
        scene.log.held["a"] = asyncio.Event()
        await scene.end()
        scene.log.errors[TRANSACTION_STATE] = [ErrorCode.REQUEST_TIMED_OUT]
        scene.log.held["a"].set()
        await settled(scene, "CompleteCommit")

    run(tmp_path, test)


def test_next_request_waits_for_the_end_of_the_last_transaction(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        await scene.verify(12, ("a", 0))
        scene.log.held["a"] = asyncio.Event()
        await scene.end()
        asyncio.get_running_loop().call_later(0.03, scene.log.held["a"].set)
        assert await scene.verify(12, ("a", 0)) == [(0, None)]
        assert scene.state() == "Ongoing"

    run(tmp_path, test)


def test_the_wait_for_a_completing_transaction_is_bounded(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        await scene.verify(12, ("a", 0))
        scene.log.held["a"] = asyncio.Event()
        await scene.end()
        assert await scene.verify(12, ("a", 0)) == [(ErrorCode.CONCURRENT_TRANSACTIONS, None)]
        scene.log.held["a"].set()

    run(tmp_path, test)


def test_a_transaction_is_aborted_once_it_is_past_its_timeout_and_others_are_counted(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        words, began_ms = scene.broker.metrics.words, scene.broker.now_ms()
        producer_id = scene.broker.producer_ids.take_allocated() or 0
        await scene.verify(12, ("a", 0))

        async def check(after_ms: int) -> None:
            words[OLDEST_MS] = -1
            vars(scene.broker)["now_ms"] = lambda: began_ms + after_ms
            scene.service._abort_timed_out()
            while words[OLDEST_MS] == -1:
                await asyncio.sleep(0)

        await check(30_000)
        assert (words[OPEN], words[TIMED_OUT], scene.state()) == (1, 0, "Ongoing")
        assert 0 < words[OLDEST_MS] <= 30_000
        loaded = set(scene.runtime.loaded)
        scene.runtime.loaded.clear()  # its last records are not acknowledged
        await check(70_000)
        assert (words[OPEN], words[TIMED_OUT], scene.log.markers()) == (1, 0, [])
        scene.runtime.loaded |= loaded
        await check(70_000)
        await settled(scene, "CompleteAbort")
        assert words[TIMED_OUT] == 1
        assert scene.log.markers() == [("a", 0, ControlType.ABORT, 1)]
        await check(140_000)
        assert (words[OPEN], words[TIMED_OUT], words[OLDEST_MS]) == (0, 1, 0)
        # the abort has taken none, as the epochs are not used up
        assert scene.broker.producer_ids.take_allocated() == producer_id + 1

    run(tmp_path, test)


def test_timeouts_and_expired_ids_are_checked_at_their_own_intervals(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        timers: list[tuple[Any, ...]] = []
        vars(scene.runtime)["every"] = lambda *timer: timers.append(timer)
        service = scene.service
        service.start()
        assert timers == [
            (service.settings.abort_interval_ms, "abort-timed-out", service._abort_timed_out),
            (service.settings.remove_interval_ms, "expire-ids", service._expire),
        ]
        assert service.settings.abort_interval_ms < service.settings.remove_interval_ms

    run(tmp_path, test)


def test_marker_of_offsets_waits_for_commits_that_were_verified_before_it(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        where = (OFFSETS, 3)
        await scene.verify(12, where)
        with scene.service.commits.one(scene.producer[0]):
            await scene.end()
            await asyncio.sleep(0.02)
            assert scene.log.markers() == []
        await settled(scene, "CompleteCommit")
        assert scene.log.markers() == [(*where, ControlType.COMMIT, 1)]

    run(tmp_path, test)


def test_marker_of_offsets_waits_until_the_groups_are_loaded(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        await scene.verify(12, (OFFSETS, 3))
        scene.groups.loaded.discard(3)
        await scene.end()
        await asyncio.sleep(0.05)
        assert scene.log.markers() == []
        scene.groups.loaded.add(3)
        await settled(scene, "CompleteCommit")

    run(tmp_path, test)


class TestVerification:
    def test_before_v12_partitions_must_have_been_added(self, tmp_path: Path) -> None:
        async def test(scene: Scene) -> None:
            text = "Partition was not added to the transaction"
            assert await scene.verify(10, ("a", 0)) == [(ErrorCode.INVALID_TXN_STATE, text)]
            assert await scene.verify(11, ("a", 0)) == [(ErrorCode.TRANSACTION_ABORTABLE, None)]
            await scene.verify(12, ("a", 0))
            both = await scene.verify(11, ("a", 0), ("a", 1))
            assert both == [(0, None), (ErrorCode.TRANSACTION_ABORTABLE, None)]

        run(tmp_path, test)

    def test_without_verification_every_partition_may_join(self, tmp_path: Path) -> None:
        async def test(scene: Scene) -> None:
            vars(scene.broker)["config"] = SimpleNamespace(get_bool=lambda _: False)
            assert await scene.verify(11, ("a", 0), ("a", 1)) == [(0, None), (0, None)]
            assert scene.state() == "Empty"

        run(tmp_path, test)

    def test_without_a_coordinator_the_producer_tries_again(self, tmp_path: Path) -> None:
        async def test(scene: Scene) -> None:
            scene.runtime.loaded.clear()
            ((code, text),) = await scene.verify(9, ("a", 0))
            assert code == ErrorCode.NOT_ENOUGH_REPLICAS
            assert text is not None
            assert text.endswith("Underlying error: COORDINATOR_LOAD_IN_PROGRESS")
            await delete_topics(scene.broker, lambda: [scene.broker.catalogue.topics[TRANSACTION_STATE]])
            for version in (9, 12):
                ((code, text),) = await scene.verify(version, ("a", 0))
                assert (code, text and text.split()[-1]) == (19, "COORDINATOR_NOT_AVAILABLE")

        run(tmp_path, test)

    @pytest.mark.parametrize(
        ("code", "version", "expected"),
        [
            (ErrorCode.PRODUCER_FENCED, 9, ErrorCode.INVALID_PRODUCER_EPOCH),
            (ErrorCode.PRODUCER_FENCED, 13, ErrorCode.INVALID_PRODUCER_EPOCH),
            (ErrorCode.CONCURRENT_TRANSACTIONS, 11, ErrorCode.NOT_ENOUGH_REPLICAS),
            (ErrorCode.CONCURRENT_TRANSACTIONS, 12, ErrorCode.CONCURRENT_TRANSACTIONS),
            (ErrorCode.NOT_COORDINATOR, 12, ErrorCode.NOT_ENOUGH_REPLICAS),
            (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 9, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
            (ErrorCode.NONE, 9, ErrorCode.NONE),
        ],
    )
    def test_codes_are_those_that_producers_know(self, code: Any, version: int, expected: Any) -> None:
        assert shown_error(code, version)[0] == expected


def test_new_transactional_ids_need_no_tasks(tmp_path: Path) -> None:
    """A client may request very many: with a task each, all began in one turn of the loop."""

    async def test(scene: Scene) -> None:
        scene.broker.producer_ids.take_allocated()
        before = len(asyncio.all_tasks())
        asked = [
            scene.service.init_producer_id(InitProducerIdRequest(f"id-{number}", 60_000))
            for number in range(50)
        ]
        assert len(asyncio.all_tasks()) == before
        answers = [await answer_of(each) for each in asked]
        assert len({answer.producer_id for answer in answers}) == 50
        assert {(answer.error_code, answer.producer_epoch) for answer in answers} == {(0, 0)}
        places = {scene.runtime.partition_for(f"id-{number}") for number in range(50)}
        assert places <= {index for _, index, _ in scene.log.batches}

    run(tmp_path, test)


def test_a_new_transactional_id_waits_for_a_block_of_producer_ids(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        while scene.broker.producer_ids.take_allocated() is not None:
            pass
        answer = await answer_of(scene.service.init_producer_id(InitProducerIdRequest("new", 60_000)))
        assert (answer.error_code, answer.producer_epoch) == (0, 0)
        assert answer.producer_id > scene.producer[0]

    run(tmp_path, test)


def test_answers_about_ids_are_cached_until_one_changes(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        async def shown_error() -> list[Any]:
            listed = ListTransactionsRequest([], [])
            both = DescribeTransactionsRequest([ID, "other"])
            await answer_of(scene.service.init_producer_id(InitProducerIdRequest("other", 60_000)))
            return [
                await send(scene.broker, ApiKey.LIST_TRANSACTIONS, 1, listed),
                await send(scene.broker, ApiKey.DESCRIBE_TRANSACTIONS, 0, DescribeTransactionsRequest([ID])),
                await send(scene.broker, ApiKey.DESCRIBE_TRANSACTIONS, 0, both),
            ]

        words = scene.broker.cached_answers.words

        def stands(answer: CachedAnswer) -> bool:
            _, word, value, *_ = struct.unpack_from("<5q", answer.terms)
            return bool(words[word] == value)

        before = await shown_error()
        assert all(isinstance(each, CachedAnswer) for each in before)
        assert all(map(stands, before))
        await scene.service.add_partitions(ID, *scene.producer, frozenset({("a", 0)}), TV_2)
        assert not any(map(stands, before))
        ongoing = await shown_error()
        assert all(each != old for each, old in zip(ongoing, before, strict=True))
        await scene.end()
        assert not any(map(stands, ongoing))
        assert all(each != old for each, old in zip(await shown_error(), ongoing, strict=True))

    run(tmp_path, test)


def test_answers_that_depend_on_the_time_and_errors_are_not_cached(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        old = ListTransactionsRequest([], [], duration_filter=5)
        unknown = DescribeTransactionsRequest(["unknown"])
        for question in ((ApiKey.LIST_TRANSACTIONS, 1, old), (ApiKey.DESCRIBE_TRANSACTIONS, 0, unknown)):
            assert not isinstance(await send(scene.broker, *question), CachedAnswer)

    run(tmp_path, test)

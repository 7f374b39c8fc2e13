"""EndTxn under both transaction versions, time-outs, markers, and the answers to repeated
requests."""

import pytest
from msgspec.structs import replace

from kbroker.control.transactions.metadata import TV_0, TV_1, TV_2
from kbroker.protocol.epochs import MAX_PRODUCER_EPOCH
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.end_txn import EndTxnRequest
from tests.control.transactions.world import A0, B1, ID, World, near_exhaustion, ongoing


def refusal(
    world: World, producer: tuple[int, int], commit: bool = True, version: int = TV_0, name: str = ID
) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        world.end(producer, commit, version, name)
    return refused.value.code


class TestBothVersions:
    @pytest.mark.parametrize(
        ("commit", "version", "state"),
        [
            (True, TV_0, "CompleteCommit"),
            (False, TV_0, "CompleteAbort"),
            (True, TV_2, "CompleteCommit"),
            (False, TV_2, "CompleteAbort"),
        ],
    )
    def test_outcome_is_stored_then_every_partition_gets_a_marker(
        self, commit: bool, version: int, state: str
    ) -> None:
        world = World()
        producer_id, epoch = ongoing(world, version)
        world.add((producer_id, epoch), B1, version=version)
        after = world.end((producer_id, epoch), commit, version)
        assert world.state() == state.replace("Complete", "Prepare")
        (order,) = world.write_markers()
        assert (order.commit, order.partitions, order.coordinator_epoch) == (commit, frozenset((A0, B1)), 7)
        assert order.producer_epoch == (epoch + 1 if version == TV_2 else epoch)
        assert (world.state(), world.known().partitions) == (state, frozenset())
        assert after == (world.known().producer_id, world.known().producer_epoch)

    @pytest.mark.parametrize("version", [TV_0, TV_2])
    def test_strangers_and_zombies_end_nothing(self, version: int) -> None:
        world = World()
        producer_id, epoch = ongoing(world)
        for producer in ((producer_id, epoch + 1), (producer_id, epoch - 1)):
            assert refusal(world, producer, version=version) is ErrorCode.PRODUCER_FENCED
        assert refusal(world, (7, epoch), version=version) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert refusal(world, (7, 0), name="other") is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert refusal(world, (7, 0), name="") is ErrorCode.INVALID_REQUEST
        assert world.state() == "Ongoing"

    @pytest.mark.parametrize("version", [TV_0, TV_2])
    @pytest.mark.parametrize("commit", [True, False])
    def test_repeated_request_waits_for_the_markers_and_then_succeeds(
        self, version: int, commit: bool
    ) -> None:
        world = World()
        producer = ongoing(world)
        first = world.end(producer, commit, version)
        assert refusal(world, producer, commit, version) is ErrorCode.CONCURRENT_TRANSACTIONS
        assert refusal(world, producer, not commit, version) is ErrorCode.INVALID_TXN_STATE
        world.write_markers()
        assert world.end(producer, commit, version) == first
        assert refusal(world, producer, not commit, version) is ErrorCode.INVALID_TXN_STATE

    @pytest.mark.parametrize("version", [TV_0, TV_2])
    def test_nothing_else_is_decided_while_an_end_is_being_stored(self, version: int) -> None:
        world = World()
        producer = ongoing(world)
        stored = world.shard.end(EndTxnRequest(ID, *producer, True), version, None, world.now_ms)
        assert refusal(world, producer, False, version) is ErrorCode.CONCURRENT_TRANSACTIONS
        world.run(stored)
        assert world.state() == "PrepareCommit"

    @pytest.mark.parametrize("version", [TV_0, TV_2])
    def test_failed_append_changes_nothing(self, version: int) -> None:
        world = World()
        producer = ongoing(world)
        world.append_error = ErrorCode.NOT_COORDINATOR
        assert refusal(world, producer, version=version) is ErrorCode.NOT_COORDINATOR
        world.append_error = ErrorCode.NONE
        assert (world.state(), world.orders) == ("Ongoing", [])
        world.end(producer, version=version)
        assert len(world.orders) == 1

    def test_describe_shows_the_partitions_that_still_lack_their_marker(self) -> None:
        world = World()
        producer = ongoing(world)
        world.add(producer, B1)
        world.end(producer)
        world.shard.marker_written(world.orders[0], frozenset((A0,)))
        (topic,) = world.shard.describe(ID).topics
        assert (topic.topic, topic.partitions) == ("b", [1])

    def test_completion_of_an_order_that_is_out_of_date_does_nothing(self) -> None:
        world = World()
        producer = ongoing(world)
        world.end(producer)
        (order,) = world.write_markers()
        length = len(world.log)
        assert world.run(world.shard.complete(order, world.now_ms)) is ErrorCode.NONE
        world.add(producer, A0)
        world.end(producer, False)
        assert world.run(world.shard.complete(order, world.now_ms)) is ErrorCode.NONE
        assert (len(world.log), world.state()) == (length + 2, "PrepareAbort")

    def test_a_completion_is_stored_once_while_its_record_is_pending(self) -> None:
        world = World()
        world.end(ongoing(world))
        (order,) = world.orders
        first = world.shard.complete(order, world.now_ms)
        second = world.shard.complete(order, world.now_ms)
        assert (len(first.records), second.records) == (1, [])
        world.shard.marker_written(order, order.partitions)
        assert world.known().partitions == order.partitions
        world.run(first)
        assert world.state() == "CompleteCommit"

    def test_completion_that_could_not_be_stored_fails_and_works_the_next_time(self) -> None:
        world = World()
        world.end(ongoing(world))
        (order,) = world.orders
        world.append_error = ErrorCode.NOT_COORDINATOR
        assert world.run(world.shard.complete(order, world.now_ms)) is ErrorCode.NOT_COORDINATOR
        world.append_error = ErrorCode.NONE
        world.write_markers()
        assert world.state() == "CompleteCommit"


class TestVersion1:
    def test_epoch_stays_the_same(self) -> None:
        world = World()
        producer = ongoing(world)
        assert world.end(producer) == producer

    @pytest.mark.parametrize("commit", [True, False])
    def test_nothing_has_been_begun(self, commit: bool) -> None:
        world = World()
        assert refusal(world, world.init(), commit) is ErrorCode.INVALID_TXN_STATE


class TestVersion2:
    def test_every_end_bumps_the_epoch(self) -> None:
        world = World()
        producer = ongoing(world, TV_2)
        for expected in (1, 2, 3):
            producer = world.end(producer, version=TV_2)
            assert producer[1] == expected
            world.write_markers()
            world.add(producer, A0, version=TV_2)

    def test_a_producer_that_lost_the_answer_to_its_end_may_continue(self) -> None:
        world = World()
        producer = ongoing(world, TV_2)
        bumped = world.end(producer, version=TV_2)
        world.write_markers()
        assert world.init(producer) == bumped

    def test_abort_without_partitions_bumps_too_but_a_commit_is_refused(self) -> None:
        world = World()
        producer = world.init()
        assert refusal(world, producer, True, TV_2) is ErrorCode.INVALID_TXN_STATE
        bumped = world.end(producer, False, TV_2)
        assert bumped == (producer[0], 1)
        (order,) = world.write_markers()
        assert (order.partitions, world.state()) == (frozenset(), "CompleteAbort")

    @pytest.mark.parametrize("last", [True, False])
    def test_next_end_right_after_the_last_one(self, last: bool) -> None:
        world = World()
        producer = world.end(ongoing(world, TV_2), last, TV_2)
        world.write_markers()
        assert refusal(world, producer, True, TV_2) is ErrorCode.INVALID_TXN_STATE
        assert world.end(producer, False, TV_2) == (producer[0], producer[1] + 1)

    def test_the_last_epoch_of_an_id_may_abort_nothing(self) -> None:
        """Its previous producer id is the same one: this is no repeated request after a
        rotation."""
        world, producer = near_exhaustion(epoch=32765)
        world.add(producer, A0, version=TV_2)
        last = world.end_and_complete(producer)
        assert last == (producer[0], 32766)
        after = world.end(last, False, TV_2)
        assert (after[0] != producer[0], after[1]) == (True, 0)

    def test_a_producer_id_from_before_the_previous_one_ends_nothing(self) -> None:
        world, producer = near_exhaustion()
        world.add(producer, A0, version=TV_2)
        world.end_and_complete(producer)
        stranger = producer[0] - 1, producer[1]
        assert refusal(world, stranger, True, TV_2) is ErrorCode.INVALID_PRODUCER_ID_MAPPING

    def test_an_abort_of_nothing_after_a_transaction_begins_when_it_is_requested(self) -> None:
        world = World()
        producer = world.end_and_complete(ongoing(world, TV_2))
        world.now_ms += 5
        world.end(producer, False, TV_2)
        assert world.known().start_ms == world.now_ms

    def test_an_abort_of_nothing_begins_when_it_is_requested(self) -> None:
        world = World()
        producer = world.init()
        world.now_ms += 5
        world.end(producer, False, TV_2)
        assert world.known().start_ms == world.now_ms

    def test_epoch_from_before_the_last_end_is_a_zombie_once_the_next_has_begun(self) -> None:
        world = World()
        producer = ongoing(world, TV_2)
        world.add(world.end_and_complete(producer), A0, version=TV_2)
        assert refusal(world, producer, True, TV_2) is ErrorCode.PRODUCER_FENCED

    @pytest.mark.parametrize("commit", [True, False])
    def test_used_up_producer_id_is_replaced_by_the_end(self, commit: bool) -> None:
        world, producer = near_exhaustion()
        world.add(producer, A0, version=TV_2)
        after = world.end(producer, commit, TV_2)
        assert (after[0] != producer[0], after[1]) == (True, 0)
        (order,) = world.write_markers()
        assert (order.producer_id, order.producer_epoch) == (producer[0], MAX_PRODUCER_EPOCH)
        assert (world.known().producer_id, world.known().producer_epoch) == after
        assert world.end(producer, commit, TV_2) == after, "a repeated request"
        older = producer[0], producer[1] - 1
        assert refusal(world, older, commit, TV_2) is ErrorCode.INVALID_PRODUCER_ID_MAPPING

    def test_without_a_producer_id_at_hand_the_client_tries_again(self) -> None:
        world, producer = near_exhaustion()
        world.add(producer, A0, version=TV_2)
        world.fresh_id = lambda: None  # type: ignore[method-assign,assignment,return-value]
        assert refusal(world, producer, version=TV_2) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class TestTimeOut:
    @pytest.mark.parametrize("version", [TV_1, TV_2])
    def test_open_transaction_is_aborted_after_its_timeout_and_its_producer_fenced(
        self, version: int
    ) -> None:
        world = World(version=version)
        assert not list(world.shard.table.ongoing())
        zombie = ongoing(world)
        world.now_ms += 60_000
        assert [each.start_ms for each in world.shard.table.ongoing()] == [world.now_ms - 60_000]
        assert world.abort_timed_out() == []
        world.now_ms += 1
        assert world.abort_timed_out() == [ID]
        (order,) = world.write_markers()
        assert (order.commit, order.producer_epoch) == (False, zombie[1] + 1)
        assert world.state() == "CompleteAbort"
        with pytest.raises(KafkaError, match="PRODUCER_FENCED"):
            world.add(zombie, A0)
        assert world.init() == (zombie[0], zombie[1] + 2)

    def test_a_timed_out_transaction_of_an_exhausted_id_continues_with_a_new_id(self) -> None:
        world, producer = near_exhaustion()
        world.add(producer, A0, version=TV_2)
        world.now_ms += 60_001
        world.abort_timed_out()
        world.write_markers()
        assert world.known().producer_id != producer[0]

    def test_nothing_is_aborted_whose_id_is_gone_or_another_producers(self) -> None:
        world = World()
        producer = ongoing(world)
        world.now_ms += 60_001
        assert world.shard.abort_timed_out("other", producer[0], None, world.now_ms).records == []
        assert world.shard.abort_timed_out(ID, producer[0] + 1, None, world.now_ms).records == []
        assert world.abort_timed_out() == [ID]

    def test_nothing_is_aborted_that_ended_in_the_meantime(self) -> None:
        world = World()
        producer = ongoing(world)
        world.now_ms += 60_001
        world.end(producer)
        outcome = world.shard.abort_timed_out(ID, producer[0], None, world.now_ms)
        assert (outcome.records, world.abort_timed_out()) == ([], [])


class TestRestart:
    @pytest.mark.parametrize("commit", [True, False])
    @pytest.mark.parametrize("version", [TV_0, TV_2])
    def test_prepared_transaction_is_finished_by_the_successor(self, commit: bool, version: int) -> None:
        world = World()
        after = world.end(ongoing(world, version), commit, version)
        (ordered,) = world.orders
        successor = world.restarted()
        assert successor.orders == [ordered]
        successor.write_markers()
        assert successor.state() == ("CompleteCommit" if commit else "CompleteAbort")
        assert (successor.known().producer_id, successor.known().producer_epoch) == after

    def test_open_transaction_stays_open(self) -> None:
        world = World()
        producer = ongoing(world)
        successor = world.restarted()
        assert (successor.state(), successor.orders) == ("Ongoing", [])
        successor.end(producer)

    def test_everything_but_the_epoch_before_the_last_bump_survives(self) -> None:
        world = World()
        world.init(world.init())
        assert world.restarted().known() == replace(world.known(), last_producer_epoch=-1)

    def test_partition_that_is_gone_takes_its_ids_and_orders_with_it(self) -> None:
        world = World()
        world.end(ongoing(world))
        world.shard.unloaded(0)
        assert (world.orders, world.shard.table.get(ID)) == ([], None)

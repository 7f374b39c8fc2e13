"""AddPartitionsToTxn: joining and looking up."""

import pytest

from kbroker.control.transactions.metadata import TV_2
from kbroker.protocol.errors import ErrorCode, KafkaError
from tests.control.transactions.world import A0, B1, ID, START_MS, World, ongoing


def refusal(world: World, producer: tuple[int, int], name: str = ID) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        world.add(producer, A0, name=name)
    return refused.value.code


def test_first_partition_begins_the_transaction_and_later_ones_do_not_move_its_start() -> None:
    world = World()
    producer = ongoing(world)
    world.now_ms += 5000
    world.add(producer, B1)
    assert (world.state(), world.known().partitions) == ("Ongoing", frozenset((A0, B1)))
    assert world.known().start_ms == START_MS


def test_partition_that_is_in_it_already_writes_nothing() -> None:
    world = World()
    producer = ongoing(world)
    length = len(world.log)
    world.add(producer, A0)
    assert len(world.log) == length


def test_invalid_additions_are_refused() -> None:
    world = World()
    producer_id, epoch = world.init()
    assert refusal(world, (producer_id, epoch), "other") is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert refusal(world, (producer_id, epoch), "") is ErrorCode.INVALID_REQUEST
    assert refusal(world, (7, epoch)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert refusal(world, (producer_id, epoch + 1)) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("commit", [True, False])
def test_next_transaction_begins_when_the_markers_of_the_last_are_written(commit: bool) -> None:
    world = World()
    producer = ongoing(world)
    world.end(producer, commit)
    assert refusal(world, producer) is ErrorCode.CONCURRENT_TRANSACTIONS
    world.write_markers()
    world.now_ms += 10
    world.add(producer, B1)
    assert (world.known().partitions, world.known().start_ms) == (frozenset((B1,)), START_MS + 10)


def test_verification_distinguishes_partitions_of_the_transaction() -> None:
    world = World()
    producer = ongoing(world)
    found = world.shard.verify_partitions(ID, *producer, frozenset((A0, B1)))
    assert found == {A0: ErrorCode.NONE, B1: ErrorCode.TRANSACTION_ABORTABLE}


@pytest.mark.parametrize("version", [0, TV_2])
def test_verification_refuses_strangers_zombies_and_transactions_that_end(version: int) -> None:
    world = World()
    producer_id, epoch = ongoing(world)

    def code(name: str, producer_id: int, epoch: int) -> ErrorCode:
        with pytest.raises(KafkaError) as refused:
            world.shard.verify_partitions(name, producer_id, epoch, frozenset((A0,)))
        return refused.value.code

    assert code("other", producer_id, epoch) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert code(ID, 7, epoch) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert code(ID, producer_id, epoch + 1) is ErrorCode.PRODUCER_FENCED
    world.end((producer_id, epoch), version=version)
    expected = ErrorCode.PRODUCER_FENCED if version == TV_2 else ErrorCode.CONCURRENT_TRANSACTIONS
    assert code(ID, producer_id, epoch) is expected


def test_a_request_with_one_new_partition_adds_it_to_those_that_have_joined() -> None:
    world = World()
    producer = ongoing(world)
    world.add(producer, A0, B1)
    assert world.known().partitions == frozenset((A0, B1))


def test_a_request_without_partitions_begins_a_transaction_and_continues_one() -> None:
    """As in Kafka, whose check of joined partitions is for an open transaction only."""
    world = World()
    producer = world.init()
    world.add(producer)
    assert (world.state(), world.known().start_ms) == ("Ongoing", START_MS)
    length = len(world.log)
    world.add(producer)
    assert len(world.log) == length

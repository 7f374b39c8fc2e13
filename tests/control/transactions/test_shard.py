"""The transaction coordinator as one machine: ids that expire, partitions of its log that come and
go."""

import gc

import pytest
from msgspec.structs import replace

from kbroker.control.transactions.metadata import TV_2
from kbroker.control.transactions.state import TransactionState
from kbroker.control.transactions.transaction_records import state_record, tombstone
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.control.transactions.world import ID, PARTITION, World, ongoing

EXPIRATION_MS = 604_800_000


@pytest.mark.parametrize(("idle_ms", "expired"), [(EXPIRATION_MS - 1, False), (EXPIRATION_MS, True)])
def test_an_id_expires_after_its_time_without_use(idle_ms: int, expired: bool) -> None:
    world = World()
    world.init()
    now_ms = world.now_ms + idle_ms
    assert world.shard.is_expired(ID, now_ms) is expired
    world.run(world.shard.expire(ID, now_ms))
    assert (world.shard.table.get(ID) is None) is expired
    assert len(world.log) == 1 + expired


def test_an_unknown_id_does_not_expire() -> None:
    world = World()
    assert not world.shard.is_expired(ID, world.now_ms)
    assert world.shard.expire(ID, world.now_ms).records == []


def test_an_id_does_not_expire_before_its_transaction_is_complete() -> None:
    world = World()
    producer = ongoing(world)
    late = world.now_ms + 2 * EXPIRATION_MS
    assert not world.shard.is_expired(ID, late)
    world.end(producer)
    assert not world.shard.is_expired(ID, late)
    world.write_markers()
    assert world.shard.is_expired(ID, late)


def test_an_id_does_not_expire_while_a_change_is_on_its_way_to_the_log() -> None:
    world = World()
    producer = world.init()
    late = world.now_ms + 2 * EXPIRATION_MS
    pending = world.shard.init_producer_id(InitProducerIdRequest(ID, 60_000, *producer), None, world.now_ms)
    assert not world.shard.is_expired(ID, late)
    world.run(pending)
    assert world.shard.is_expired(ID, late)


def test_only_an_id_that_has_epochs_left_needs_no_producer_id() -> None:
    world = World()
    assert world.shard.needs_producer_id(ID)
    world.init()
    assert not world.shard.needs_producer_id(ID)


def prepared(world: World, name: str, partition: int) -> None:
    """A log in which the end of a transaction of this id is decided."""
    known = replace(world.known(), transactional_id=name, state=TransactionState.PREPARE_COMMIT)
    record = state_record(known, TV_2)
    world.shard.replay(partition, record.key, record.value, world.now_ms)


def test_a_loaded_partition_has_the_markers_of_its_own_prepared_ids_written() -> None:
    world = World()
    ongoing(world)
    prepared(world, "b", 1)
    prepared(world, "a", 1)
    prepared(world, "elsewhere", 2)
    world.shard.loaded(PARTITION, world.now_ms)
    assert world.orders == []
    world.shard.loaded(1, world.now_ms)
    assert [order.transactional_id for order in world.orders] == ["a", "b"]


def test_an_unloaded_partition_takes_its_ids_and_their_markers_along() -> None:
    world = World()
    ongoing(world)
    for name, partition in (("a", 1), ("elsewhere", 2)):
        prepared(world, name, partition)
        world.shard.loaded(partition, world.now_ms)
    world.shard.unloaded(1)
    assert sorted(world.shard.table.ids()) == sorted([ID, "elsewhere"])
    assert [order.transactional_id for order in world.orders] == ["elsewhere"]


def test_an_id_that_is_stored_without_a_replay_belongs_to_its_partition() -> None:
    world = World()
    outcome = world.shard.init_producer_id(InitProducerIdRequest(ID, 60_000, -1, -1), 1001, world.now_ms)
    assert outcome.apply is not None
    assert outcome.then is not None
    outcome.apply(3)
    outcome.then(world.append_error)
    assert world.shard.table.get(ID) is not None
    world.shard.unloaded(3)
    assert world.shard.table.get(ID) is None


def test_a_deleted_id_is_not_deleted_again_with_its_partition() -> None:
    world = World()
    world.init()
    record = tombstone(ID)
    world.shard.replay(PARTITION, record.key, record.value, world.now_ms)
    assert world.shard.table.get(ID) is None
    changed: list[str] = []
    world.shard.table.on_change = changed.append
    world.shard.unloaded(PARTITION)
    assert changed == []


def test_the_garbage_collector_examines_no_transactional_id() -> None:
    """A full collection examined two objects of each, a quarter of a second for a million, in which
    control served no client."""
    world = World()
    for number in range(10):  # what is made once
        world.init(name=f"first-{number}")
    records = [
        state_record(replace(world.known("first-0"), transactional_id=f"id-{number}"), TV_2)
        for number in range(500)
    ]
    before = tracked()
    for record in records:
        world.shard.replay(PARTITION, record.key, record.value, world.now_ms)
    for number in range(500):
        world.init(name=f"id-{number}")
    world.log.clear()
    assert world.shard.table.count == 510
    assert tracked() - before < 100


def tracked() -> int:
    gc.collect()
    return len(gc.get_objects())

"""DescribeTransactions, ListTransactions, expiration of ids, and the records as Kafka writes
them."""

import pytest

from kbroker.control.transactions.metadata import TV_0, TV_1, TV_2, TransactionMetadata
from kbroker.control.transactions.partitions import TransactionPartitions
from kbroker.control.transactions.settings import TransactionSettings
from kbroker.control.transactions.state import BY_NAME, TransactionState
from kbroker.control.transactions.transaction_records import read_record, state_record, tombstone
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.list_transactions import ListTransactionsRequest
from kbroker.protocol.schema import ProtocolError
from tests.control.transactions.world import A0, B1, ID, START_MS, World, ongoing


def listed(world: World, **filters: object) -> list[str]:
    response = world.shard.list_transactions(ListTransactionsRequest(**filters), world.now_ms)
    return sorted(state.transactional_id for state in response.transaction_states)


@pytest.fixture
def world() -> World:
    """open-1 has been open for 5 s, open-2 begins now, done has no transaction."""
    made = World()
    ongoing(made, name="open-1")
    made.now_ms += 5000
    ongoing(made, name="open-2")
    made.init(name="done")
    return made


def test_description_shows_the_entire_state() -> None:
    world = World()
    producer = ongoing(world)
    world.add(producer, B1)
    state = world.shard.describe(ID)
    assert (state.error_code, state.transaction_state, state.transaction_timeout_ms) == (0, "Ongoing", 60_000)
    assert (state.producer_id, state.producer_epoch, state.transaction_start_time_ms) == (*producer, START_MS)
    assert [(topic.topic, topic.partitions) for topic in state.topics] == [("a", [0]), ("b", [1])]


def test_description_without_members() -> None:
    assert World().shard.describe("").error_code is ErrorCode.INVALID_REQUEST
    assert World().shard.describe("x").error_code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_filters_are_combined(world: World) -> None:
    assert listed(world) == ["done", "open-1", "open-2"]
    assert listed(world, state_filters=["Ongoing"]) == ["open-1", "open-2"]
    assert listed(world, state_filters=["Ongoing"], duration_filter=4999) == ["open-1"]
    assert listed(world, state_filters=["Ongoing"], duration_filter=5000) == []
    assert listed(world, duration_filter=0) == ["done", "open-1"], "open-2 is open for no time yet"
    assert listed(world, duration_filter=-1) == ["done", "open-1", "open-2"]
    assert listed(world, producer_id_filters=[world.known("open-2").producer_id]) == ["open-2"]
    assert listed(world, transactional_id_pattern="open-.*") == ["open-1", "open-2"]
    assert listed(world, transactional_id_pattern="open") == [], "the whole id must match"
    assert listed(world, transactional_id_pattern="") == ["done", "open-1", "open-2"]


def test_unknown_states_are_reported_and_match_nothing(world: World) -> None:
    request = ListTransactionsRequest(state_filters=["Open", "Open"])
    response = world.shard.list_transactions(request, world.now_ms)
    assert (response.unknown_state_filters, response.transaction_states) == (["Open"], [])


def test_pattern_must_be_an_expression(world: World) -> None:
    with pytest.raises(KafkaError, match="INVALID_REGULAR_EXPRESSION"):
        listed(world, transactional_id_pattern="(")


def test_states_have_kafkas_names() -> None:
    names = "Empty Ongoing PrepareCommit PrepareAbort CompleteCommit CompleteAbort Dead PrepareEpochFence"
    assert list(BY_NAME) == names.split()


class TestExpiration:
    def test_unused_id_is_forgotten(self) -> None:
        world = World(settings=TransactionSettings(id_expiration_ms=1000))
        world.init()
        world.now_ms += 999
        assert not world.shard.is_expired(ID, world.now_ms)
        world.now_ms += 1
        assert world.shard.is_expired(ID, world.now_ms)
        world.run(world.shard.expire(ID, world.now_ms))
        assert world.log[-1] == tombstone(ID)
        assert world.shard.table.get(ID) is None
        assert world.restarted().shard.table.get(ID) is None

    def test_open_or_used_ids_are_kept(self) -> None:
        world = World(settings=TransactionSettings(id_expiration_ms=1000))
        producer = ongoing(world)
        world.now_ms += 10_000
        assert not world.shard.is_expired(ID, world.now_ms)
        world.end(producer)
        assert not world.shard.is_expired(ID, world.now_ms)
        world.write_markers()
        assert world.shard.expire(ID, world.now_ms).records == []


class TestRecords:
    FULL = TransactionMetadata(
        ID,
        7,
        60_000,
        6,
        8,
        3,
        -1,
        TransactionState.PREPARE_COMMIT,
        TransactionPartitions.of((A0, B1)),
        100,
        200,
        TV_2,
    )

    @pytest.mark.parametrize("version", [TV_1, TV_2])
    def test_a_state_is_read_as_it_was_written(self, version: int) -> None:
        record = state_record(self.FULL, version)
        assert read_record(record.key, record.value) == (ID, self.FULL)

    def test_before_transactions_v1_the_newer_fields_are_not_written(self) -> None:
        record = state_record(self.FULL, TV_0)
        assert record.value is not None
        assert record.value[:2] == b"\0\0"
        _, known = read_record(record.key, record.value)
        assert known is not None
        assert (known.next_producer_id, known.client_version) == (-1, TV_0)

    def test_empty_state_has_no_list_of_partitions(self) -> None:
        record = state_record(TransactionMetadata(ID, 7, 1, last_update_ms=5), TV_2)
        assert record.value == bytes.fromhex(
            "0001 0000000000000007 ffff 00000001 00 00 0000000000000005 ffffffffffffffff 00".replace(" ", "")
        )

    @pytest.mark.parametrize("change", [b"\0\7", b"\0\1"])
    def test_records_that_kafka_4_3_does_not_have_are_left_out(self, change: bytes) -> None:
        record = state_record(self.FULL, TV_2)
        world = World()
        assert record.value is not None
        for key, value in (
            (change + record.key[2:], record.value),
            (record.key, b"\0\7" + record.value[2:]),
        ):
            with pytest.raises(ProtocolError):
                world.shard.replay(0, key, value, 0)
        assert list(world.shard.table.all()) == []
        with pytest.raises(ProtocolError):
            read_record(change + record.key[2:], record.value)

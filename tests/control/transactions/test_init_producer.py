"""InitProducerId with a transactional id: new, bump, go on, fence, used-up epochs."""

import pytest

from kbroker.control.transactions.metadata import TV_1, TV_2
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.control.transactions.world import A0, ID, World, near_exhaustion, ongoing


def refusal(world: World, *args: object, **kwargs: object) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        world.init(*args, **kwargs)
    return refused.value.code


def test_new_id_gets_a_fresh_producer_id_and_epoch_zero() -> None:
    assert World().init() == (1001, 0)


def test_next_producer_of_the_id_bumps_the_epoch() -> None:
    world = World()
    first = world.init()
    assert world.init() == (first[0], 1)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_timeout_must_be_positive_and_not_above_the_maximum(timeout_ms: int) -> None:
    assert refusal(World(), timeout_ms=timeout_ms) is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert World().init(timeout_ms=900_000) == (1001, 0)


@pytest.mark.parametrize(("name", "producer"), [("", (-1, -1)), (ID, (5, -1)), (ID, (-1, 5))])
def test_request_that_makes_no_sense_is_invalid(name: str, producer: tuple[int, int]) -> None:
    assert refusal(World(), producer, name=name) is ErrorCode.INVALID_REQUEST


def test_a_producer_that_continues_after_an_error_keeps_its_id_and_bumps_its_epoch() -> None:
    world = World()
    assert world.init(world.init()) == (1001, 1)


def test_a_repeated_request_to_continue_gets_the_same_answer() -> None:
    world = World()
    first = world.init()
    assert world.init(first) == world.init(first) == (1001, 1)


def test_a_zombie_is_fenced_once_another_producer_has_begun() -> None:
    world = World()
    zombie = world.init()
    world.init()
    assert refusal(world, zombie) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("distance", [-1, 1])
def test_producer_with_another_id_is_fenced(distance: int) -> None:
    world = World()
    producer_id, epoch = world.init()
    assert refusal(world, (producer_id + distance, epoch)) is ErrorCode.PRODUCER_FENCED


def test_an_unknown_id_accepts_any_producer_that_continues() -> None:
    assert World().init((999, 4)) == (1001, 0)


@pytest.mark.parametrize("version", [TV_1, TV_2])
def test_open_transaction_of_the_predecessor_is_aborted_first(version: int) -> None:
    world = World(version=version)
    zombie = ongoing(world)
    assert refusal(world) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.state() == "PrepareAbort"
    assert refusal(world) is ErrorCode.CONCURRENT_TRANSACTIONS
    (order,) = world.write_markers()
    assert (order.commit, order.partitions, order.producer_epoch) == (False, frozenset((A0,)), 1)
    successor = world.init()
    assert successor == (zombie[0], 2)
    with pytest.raises(KafkaError, match="PRODUCER_FENCED"):
        world.end(zombie)
    with pytest.raises(KafkaError, match="PRODUCER_FENCED"):
        world.add(zombie, A0)


def test_failed_append_leaves_everything_as_it_was() -> None:
    world = World()
    world.init()
    world.append_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert refusal(world) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.append_error = ErrorCode.NONE
    assert world.init() == (1001, 1)


def test_used_up_epoch_gives_a_fresh_producer_id() -> None:
    world, (old, _) = near_exhaustion()
    fresh, epoch = world.init()
    assert (fresh != old, epoch) == (True, 0)


def test_the_next_producer_brings_its_own_timeout() -> None:
    world = World()
    world.init(timeout_ms=60_000)
    world.init(timeout_ms=5000)
    assert world.known().timeout_ms == 5000


def test_an_early_epoch_of_the_producer_id_before_is_fenced() -> None:
    world, (old, _) = near_exhaustion()
    world.init()
    assert refusal(world, (old, 0)) is ErrorCode.PRODUCER_FENCED


def test_answer_that_was_lost_while_the_id_changed_is_given_again() -> None:
    world, producer = near_exhaustion()
    first = world.init(producer)
    again = world.init(producer)
    assert first[0] != producer[0]
    assert again == first


def test_an_older_producer_is_fenced_also_when_the_epochs_are_used_up() -> None:
    world, (producer_id, epoch) = near_exhaustion()
    assert refusal(world, (producer_id, epoch - 2)) is ErrorCode.PRODUCER_FENCED
    assert (world.known().producer_id, world.known().producer_epoch) == (producer_id, epoch)


def test_the_last_epoch_is_given_again_to_a_producer_that_lost_the_answer() -> None:
    world, before = near_exhaustion(epoch=32765)
    assert world.init(before) == world.init(before) == (before[0], 32766)


def test_without_a_producer_id_at_hand_the_client_tries_again() -> None:
    world = World()
    request = InitProducerIdRequest(ID, 60_000)
    with pytest.raises(KafkaError, match="COORDINATOR_LOAD_IN_PROGRESS"):
        world.shard.init_producer_id(request, None, world.now_ms)


def test_a_second_request_meanwhile_gets_concurrent_transactions() -> None:
    world = World()
    world.init()
    request = InitProducerIdRequest(ID, 60_000)
    outcome = world.shard.init_producer_id(request, None, world.now_ms)
    assert refusal(world) is ErrorCode.CONCURRENT_TRANSACTIONS
    world.run(outcome)
    assert world.init() == (1001, 2)


def test_an_append_that_fails_is_answered_with_its_error_and_changes_nothing() -> None:
    world = World()
    world.append_error = ErrorCode.NOT_COORDINATOR
    assert refusal(world) is ErrorCode.NOT_COORDINATOR
    assert world.shard.table.get(ID) is None
    world.append_error = ErrorCode.NONE
    ongoing(world)
    world.append_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert refusal(world) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.state() == "Ongoing"
    world.append_error = ErrorCode.NONE
    assert refusal(world) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.state() == "PrepareAbort"

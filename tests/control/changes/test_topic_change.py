"""Creating, deleting and growing topics: stored, opened, announced, visible, in this order."""

import asyncio
import errno
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kbroker.config.alter import Alteration
from kbroker.control.broker import OPENS_AT_ONCE, Broker
from kbroker.control.changes import topic_change
from kbroker.control.changes.config_change import alter
from kbroker.control.changes.internal_topic import ensure
from kbroker.control.changes.topic_change import check_growth, create_topics, delete_topics, grow_topic
from kbroker.control.images import full_image
from kbroker.control.metadata.catalogue import Replica
from kbroker.control.metadata.config_resource import BROKER, TOPIC
from kbroker.control.metadata.topic_plan import NewTopic, TopicPlan
from kbroker.ipc import slicing
from kbroker.ipc.layout import Slot, SlotFlag
from kbroker.ipc.messages import ClosePartition, Image, OpenPartition
from kbroker.protocol.errors import ErrorCode, KafkaError
from tests.control.fakes import FakeNetwork, FullStore, World, world


def create(made: World, *specs: NewTopic, validate_only: bool = False) -> dict[str, TopicPlan | KafkaError]:
    return dict(asyncio.run(create_topics(made.broker, specs, validate_only)).items())


def test_a_created_topic_is_known_to_everyone_and_stored(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        create(made, NewTopic("a", 3, configs={"retention.ms": "5"}))
        topic = made.broker.catalogue.topics["a"]
        assert [p.index for p in topic.partitions] == [0, 1, 2]
        assert made.network.topics["a"].topic_id == topic.topic_id
        assert sorted(made.worker.opened) == [p.slot for p in topic.partitions]
        assert all(made.broker.is_online(p) for p in topic.partitions)
        assert made.worker.opened[topic.partitions[0].slot].config.retention_ms == 5
        made.broker.close()
        again = made.start()
        assert again.catalogue.topics["a"].topic_id == topic.topic_id
        assert again.override(2, "a") == {"retention.ms": "5"}


def test_clients_see_a_topic_only_when_network_processes_have_confirmed_it(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        seen: list[bool] = []

        class Slow(FakeNetwork):
            async def _apply(self, image: Image) -> None:
                await asyncio.sleep(0)
                seen.append("a" in made.broker.catalogue.topics)
                self.images.append(image)

            def call(self, body: Image):  # type: ignore[no-untyped-def]
                return self._apply(body)

        made.broker.links.add_network(1, Slow())
        create(made, NewTopic("a"))
        assert seen == [False]
        assert "a" in made.broker.catalogue.topics


def test_a_network_process_that_starts_while_a_topic_is_announced_gets_it(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        late: list[str] = []

        class Watching(FakeNetwork):
            def call(self, body: Image):  # type: ignore[no-untyped-def]
                late.extend(topic.name for topic in full_image(made.broker).topics)
                return super().call(body)

        made.broker.links.add_network(1, Watching())
        create(made, NewTopic("a"))
        assert late == ["a"]


def test_a_worker_that_starts_while_a_topic_is_announced_opens_it(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        listed: list[tuple[str, int]] = []

        class Watching(FakeNetwork):
            def call(self, body: Image):  # type: ignore[no-untyped-def]
                listed.extend((topic.name, p.index) for topic, p, _ in made.broker.logs_of(0))
                return super().call(body)

        made.broker.links.add_network(1, Watching())
        create(made, NewTopic("a"))
        assert listed == [("a", 0)]
        asyncio.run(grow_topic(made.broker, "a", 2))
        assert listed[1:] == [("a", 0), ("a", 1)]


def test_validate_only_makes_nothing(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        result = create(made, NewTopic("a", 3), validate_only=True)
        assert isinstance(result["a"], TopicPlan)
        assert not made.broker.catalogue.topics
        assert not made.worker.calls


def test_each_topic_of_a_request_has_its_own_result(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        create(made, NewTopic("there"))
        results = create(made, NewTopic("there"), NewTopic("bad name"), NewTopic("good"))
        codes = {name: getattr(result, "code", None) for name, result in results.items()}
        assert codes == {
            "there": ErrorCode.TOPIC_ALREADY_EXISTS,
            "bad name": ErrorCode.INVALID_TOPIC_EXCEPTION,
            "good": None,
        }


def test_a_topic_that_finds_no_room_leaves_no_configs(tmp_path: Path) -> None:
    """Else they would be those of a later topic of its name."""
    with world(tmp_path) as made:
        too_many = len(made.shared.slots) + 1
        configs = {"retention.ms": "5"}
        results = create(made, NewTopic("a", 1), NewTopic("b", too_many, configs=configs))
        assert isinstance(results["a"], TopicPlan)
        assert isinstance(results["b"], KafkaError)
        assert made.broker.override(TOPIC, "b") == {}
        create(made, NewTopic("b", 1))
        assert made.broker.topic_config("b").retention_ms != 5


def test_partitions_are_spread_over_directories_and_their_workers(tmp_path: Path) -> None:
    with world(tmp_path, dirs=2, workers=2) as made:
        create(made, NewTopic("a", 4))
        placed = [(p.log_dir, p.worker) for p in made.broker.catalogue.topics["a"].partitions]
        assert placed == [(made.dirs[0], 0), (made.dirs[1], 1)] * 2


def test_topics_of_one_request_look_at_existing_logs_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of 5,000 topics looked at those of all others: seconds in one callback."""
    looks: list[int] = []
    look = topic_change.occupied_dirs

    async def counted(broker: Broker) -> Counter[str]:
        looks.append(1)
        return await look(broker)

    with world(tmp_path) as made:
        monkeypatch.setattr(topic_change, "occupied_dirs", counted)
        results = asyncio.run(create_topics(made.broker, [NewTopic(f"t{number}") for number in range(50)]))
        assert all(isinstance(result, TopicPlan) for _, result in results.items())
        assert len(looks) == 1


def test_cordoned_directories_get_no_new_partitions(tmp_path: Path) -> None:
    with world(tmp_path, {"cordoned.log.dirs": str(tmp_path / "d0")}, dirs=2) as made:
        create(made, NewTopic("a", 2))
        assert {p.log_dir for p in made.broker.catalogue.topics["a"].partitions} == {made.dirs[1]}


def test_no_partition_is_created_while_all_directories_are_cordoned(tmp_path: Path) -> None:
    with world(tmp_path, dirs=2) as made:
        create(made, NewTopic("a"))
        cordon = Alteration("cordoned.log.dirs", 0, "*")
        asyncio.run(alter(made.broker, BROKER, "1", [cordon], False))
        refused = create(made, NewTopic("b"))["b"]
        assert isinstance(refused, KafkaError)
        assert refused.code is ErrorCode.INVALID_REPLICATION_FACTOR
        with pytest.raises(KafkaError) as error:
            asyncio.run(grow_topic(made.broker, "a", 2))
        assert error.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
        assert set(made.broker.catalogue.topics) == {"a"}


def test_a_mere_check_finds_that_all_directories_are_cordoned(tmp_path: Path) -> None:
    with world(tmp_path, dirs=2) as made:
        create(made, NewTopic("a"))
        cordon = Alteration("cordoned.log.dirs", 0, "*")
        asyncio.run(alter(made.broker, BROKER, "1", [cordon], False))
        checked = create(made, NewTopic("b"), validate_only=True)["b"]
        assert isinstance(checked, KafkaError)
        assert checked.code is ErrorCode.INVALID_REPLICATION_FACTOR
        why = "All brokers are currently fenced, or have all their log directories cordoned."
        assert checked.message == f"Unable to replicate the partition 1 time(s): {why}"
        counted: list[int] = []
        with pytest.raises(KafkaError) as error:
            check_growth(made.broker, "a", 2, count_added=counted.append)
        assert (error.value.code, error.value.message) == (ErrorCode.INVALID_REPLICATION_FACTOR, why)
        assert counted == [1]  # Kafka counts them for the quota before it places them


def test_a_directory_that_has_failed_gets_no_new_partitions(tmp_path: Path) -> None:
    with world(tmp_path, dirs=2) as made:
        create(made, NewTopic("a", 2))
        failed = made.broker.catalogue.topics["a"].partitions[0]
        made.broker.dir_errors.fail(failed.log_dir, errno.EIO)
        create(made, NewTopic("b", 3))
        assert {p.log_dir for p in made.broker.catalogue.topics["b"].partitions} == {made.dirs[1]}


def test_a_topic_whose_log_can_not_be_opened_never_existed(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        made.worker.refuse[OpenPartition] = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        made.worker.refuse[ClosePartition] = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        result = create(made, NewTopic("a", 2, configs={"retention.ms": "5"}))["a"]
        assert isinstance(result, KafkaError)
        assert result.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert "a" not in made.network.topics
        made.worker.refuse.clear()
        assert isinstance(create(made, NewTopic("a", 2))["a"], TopicPlan)
        assert made.broker.override(2, "a") == {}


def test_a_topic_does_not_get_the_settings_of_one_that_could_not_be_opened(tmp_path: Path) -> None:
    """They were left in the store: after a restart its records expired by them."""
    with world(tmp_path) as made:
        made.worker.refuse[OpenPartition] = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        create(made, NewTopic("a", configs={"retention.ms": "5"}))
        made.worker.refuse.clear()
        create(made, NewTopic("a"))
        made.broker.close()
        again = made.start()
        assert list(again.catalogue.topics) == ["a"]
        assert again.override(TOPIC, "a") == {}


def test_a_topic_that_can_neither_be_opened_nor_removed_from_the_store_is_offline(tmp_path: Path) -> None:
    """Its name is not free: the store would refuse a topic of the same name."""
    with world(tmp_path) as made:
        made.worker.refuse[OpenPartition] = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        store = FullStore(made, takes=1)
        assert isinstance(create(made, NewTopic("a", configs={"retention.ms": "5"}))["a"], KafkaError)
        store.full = False
        assert not made.broker.opening
        assert not made.broker.is_online(made.broker.catalogue.topics["a"].partitions[0])
        assert made.broker.override(TOPIC, "a") == {"retention.ms": "5"}
        again = create(made, NewTopic("a"))["a"]
        assert isinstance(again, KafkaError)
        assert again.code is ErrorCode.TOPIC_ALREADY_EXISTS


def test_a_deleted_topic_is_closed_everywhere_and_its_slots_are_free(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        create(made, NewTopic("a", 2, configs={"retention.ms": "5"}), NewTopic("b"))
        topic = made.broker.catalogue.topics["a"]
        slots = [p.slot for p in topic.partitions]
        assert asyncio.run(delete_topics(made.broker, lambda: [topic])) == [None]
        assert list(made.network.topics) == ["b"]
        assert [call.slot for call in made.worker.calls if isinstance(call, ClosePartition)] == slots
        create(made, NewTopic("a", 2))
        again = made.broker.catalogue.topics["a"]
        assert [p.slot for p in again.partitions] == slots
        assert min(p.generation for p in again.partitions) > max(p.generation for p in topic.partitions)
        assert again.topic_id != topic.topic_id
        assert made.broker.override(2, "a") == {}


def test_network_processes_forget_a_topic_before_its_log_is_closed(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        create(made, NewTopic("a"))
        known: list[bool] = []
        close = made.worker._ClosePartition

        def watched(call: ClosePartition) -> None:
            known.append("a" in made.network.topics)
            close(call)

        made.worker._ClosePartition = watched  # type: ignore[method-assign]
        asyncio.run(delete_topics(made.broker, lambda: [made.broker.catalogue.topics["a"]]))
        assert known == [False]


def test_deleting_twice_at_once_is_an_unknown_topic_for_one(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        create(made, NewTopic("a"))
        topic = made.broker.catalogue.topics["a"]

        async def both() -> tuple[list[KafkaError | None], ...]:
            return await asyncio.gather(
                delete_topics(made.broker, lambda: [topic]), delete_topics(made.broker, lambda: [topic])
            )

        first, second = asyncio.run(both())
        assert first == [None]
        assert second[0] is not None
        assert second[0].code is ErrorCode.UNKNOWN_TOPIC_ID


def test_a_topic_that_grows_while_it_is_to_be_deleted_is_deleted_completely(tmp_path: Path) -> None:
    """A folder of it that stayed would be a topic at the next start."""
    with world(tmp_path) as made:
        create(made, NewTopic("a", 2))
        topic = made.broker.catalogue.topics["a"]

        async def both() -> list[KafkaError | None]:
            _, deleted = await asyncio.gather(
                grow_topic(made.broker, "a", 4), delete_topics(made.broker, lambda: [topic])
            )
            return deleted

        assert asyncio.run(both()) == [None]
        assert made.worker.opened == {}
        assert list(Path(made.dirs[0]).glob("a-*")) == []
        made.reboot()
        assert made.broker.catalogue.topics == {}


def test_a_topic_grows_and_keeps_its_partitions(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        create(made, NewTopic("a", 2))
        before = list(made.broker.catalogue.topics["a"].partitions)
        asyncio.run(grow_topic(made.broker, "a", 4))
        topic = made.broker.catalogue.topics["a"]
        assert topic.partitions[:2] == before
        assert all(call.new for call in made.worker.opened.values())  # nothing older is looked for
        assert [p.index for p in made.network.topics["a"].partitions] == [0, 1, 2, 3]
        made.broker.close()
        assert len(made.start().catalogue.topics["a"].partitions) == 4


def test_growth_that_is_only_validated_changes_nothing(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        create(made, NewTopic("a", 2))
        assert check_growth(made.broker, "a", 4) == 2
        assert len(made.broker.catalogue.topics["a"].partitions) == 2
        with pytest.raises(KafkaError) as refused:
            check_growth(made.broker, "a", 1)
        assert refused.value.code is ErrorCode.INVALID_PARTITIONS


def test_internal_topics_get_kafkas_settings_and_are_made_once(tmp_path: Path) -> None:
    with world(tmp_path) as made:

        async def twice() -> None:
            first, second = await asyncio.gather(
                ensure(made.broker, "__consumer_offsets"), ensure(made.broker, "__consumer_offsets")
            )
            assert first is second

        asyncio.run(twice())
        topic = made.broker.catalogue.topics["__consumer_offsets"]
        assert len(topic.partitions) == 4
        config = made.broker.topic_config("__consumer_offsets")
        assert config.compact
        assert config.segment_bytes == 104857600
        flags = made.shared.slots[topic.partitions[0].slot, Slot.FLAGS]
        assert flags == SlotFlag.INTERNAL | SlotFlag.COMPACTED


def test_internal_topics_are_refused_without_the_clamp(tmp_path: Path) -> None:
    with world(tmp_path, {"kbroker.clamp.replication.factor": "false"}) as made:
        with pytest.raises(KafkaError) as refused:
            asyncio.run(ensure(made.broker, "__consumer_offsets"))
        assert refused.value.code is ErrorCode.INVALID_REPLICATION_FACTOR


def test_other_work_runs_between_the_partitions_of_large_topics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each turn of a loop over partitions ends at once here; so the speed of the machine does not
    matter."""
    monkeypatch.setattr(slicing, "SLICE_NS", 0)
    with world(tmp_path) as made:
        assigned, opened = Counter[int](), Counter[int]()
        turn = 0
        assign, open_call = made.broker.ownership.assign, made.broker.open_call

        def counted_assign(replica: Replica) -> None:
            assigned[turn] += 1
            assign(replica)

        def counted_open(*args: Any) -> OpenPartition:
            opened[turn] += 1
            return open_call(*args)

        async def call_with(_: int, make: Callable[[], Any]) -> Any:
            await asyncio.sleep(0)
            return await made.worker.call(make())

        monkeypatch.setattr(made.broker.links, "call_with", call_with)
        monkeypatch.setattr(made.broker.ownership, "assign", counted_assign)
        monkeypatch.setattr(made.broker, "open_call", counted_open)

        async def turns() -> None:
            nonlocal turn
            while True:
                await asyncio.sleep(0)
                turn += 1

        async def body() -> None:
            clock = asyncio.create_task(turns())
            await create_topics(made.broker, [NewTopic("a", 100)])
            await grow_topic(made.broker, "a", 250)
            clock.cancel()

        asyncio.run(body())
        assert assigned.total() == opened.total() == 250
        assert max(assigned.values()) <= 2  # a turn of the loop may end within one of the clock
        assert max(opened.values()) <= 2 * OPENS_AT_ONCE
        assert len(made.worker.opened) == 250

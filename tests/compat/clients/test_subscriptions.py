"""Groups of real clients: mixed members, patterns, commits, leaving, dying."""

import asyncio
import multiprocessing
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import aiokafka
import confluent_kafka
import kafka
import pytest
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from tests.compat.clients.conftest import NameFactory, TopicFactory
from tests.compat.clients.python_clients import TIMEOUT_S, Confluent
from tests.compat.clients.record import Record

pytestmark = pytest.mark.compat

PROTOCOLS = ("classic", "consumer")


class Member:
    """A confluent-kafka consumer in a group, and what it got so far."""

    def __init__(self, bootstrap: str, group: str, topics: list[str], **settings: object) -> None:
        named = {key.replace("_", "."): value for key, value in settings.items()}
        self.values: list[bytes] = []
        self.consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "topic.metadata.refresh.interval.ms": 1000,
                **named,
            }
        )
        self.consumer.subscribe(topics)

    def poll(self) -> None:
        message = self.consumer.poll(0.05)
        if message is not None:
            assert message.error() is None, message.error()
            self.values.append(message.value())

    @property
    def partitions(self) -> int:
        return len(self.consumer.assignment())


def drive(members: list[Member], until: Callable[[], bool], timeout_s: float = 120) -> None:
    """Polls all members until the condition holds; fails when it does not in time."""
    deadline = time.monotonic() + timeout_s
    while not until():
        assert time.monotonic() < deadline, [(each.partitions, len(each.values)) for each in members]
        for each in members:
            each.poll()


@contextmanager
def closing(*members: Member) -> Iterator[None]:
    try:
        yield
    finally:
        for each in members:
            each.consumer.close()


def fill(bootstrap: str, topic: str, partitions: int, each: int = 10) -> set[bytes]:
    """Writes `each` records to every partition; gives their values."""
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    values = {b"%d-%d" % (partition, n) for partition in range(partitions) for n in range(each)}
    for value in sorted(values):
        producer.produce(topic, value, partition=int(value.split(b"-")[0]))
    assert producer.flush(TIMEOUT_S) == 0
    return values


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_partitions_move_as_members_come_and_leave(
    bootstrap: str, topic: TopicFactory, fresh: NameFactory, protocol: str
) -> None:
    name, group = topic(6), fresh("group")
    values = fill(bootstrap, name, 6)
    one = Member(bootstrap, group, [name], group_protocol=protocol)
    with closing(one):
        drive([one], lambda: one.partitions == 6)
        two = Member(bootstrap, group, [name], group_protocol=protocol)
        drive([one, two], lambda: one.partitions == two.partitions == 3)
        drive([one, two], lambda: set(one.values + two.values) == values)
        two.consumer.close()
        drive([one], lambda: one.partitions == 6)


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_every_strategy_shares_evenly(
    bootstrap: str, topic: TopicFactory, fresh: NameFactory, strategy: str
) -> None:
    name, group = topic(4), fresh("strategy")
    members = [
        Member(bootstrap, group, [name], partition_assignment_strategy=strategy, heartbeat_interval_ms=500)
        for _ in range(2)
    ]
    with closing(*members):
        drive(members, lambda: [each.partitions for each in members] == [2, 2])


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_patterns_find_topics_that_come_later(
    bootstrap: str, topic: TopicFactory, fresh: NameFactory, admin: AdminClient, protocol: str
) -> None:
    stem = fresh("pattern")
    create = [confluent_kafka.admin.NewTopic(f"{stem}-{letter}", 2, 1) for letter in "ab"]
    admin.create_topics(create[:1])[f"{stem}-a"].result(TIMEOUT_S)
    member = Member(bootstrap, fresh("group"), [f"^{stem}-.*"], group_protocol=protocol)
    with closing(member):
        drive([member], lambda: member.partitions == 2)
        admin.create_topics(create[1:])[f"{stem}-b"].result(TIMEOUT_S)
        drive([member], lambda: member.partitions == 4)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_new_partitions_are_assigned(
    bootstrap: str, topic: TopicFactory, fresh: NameFactory, admin: AdminClient, protocol: str
) -> None:
    name = topic(1)
    member = Member(bootstrap, fresh("group"), [name], group_protocol=protocol)
    with closing(member):
        drive([member], lambda: member.partitions == 1)
        admin.create_partitions([NewPartitions(name, 3)])[name].result(TIMEOUT_S)
        drive([member], lambda: member.partitions == 3)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("automatic", [True, False], ids=["auto", "manual"])
def test_a_successor_continues_at_the_committed_offset(
    bootstrap: str, topic: TopicFactory, fresh: NameFactory, protocol: str, automatic: bool
) -> None:
    name, group = topic(), fresh("commits")
    values = fill(bootstrap, name, 1)
    settings = {"group_protocol": protocol, "enable_auto_commit": automatic}
    first = Member(bootstrap, group, [name], **settings)
    drive([first], lambda: set(first.values) == values)
    if not automatic:
        first.consumer.commit(offsets=[TopicPartition(name, 0, 6, "half way")], asynchronous=False)
    first.consumer.close()
    Confluent.write(bootstrap, name, "none", [Record(b"k", b"later")])
    second = Member(bootstrap, group, [name], **settings)
    with closing(second):
        drive([second], lambda: b"later" in second.values)
        assert len(second.values) == (1 if automatic else 5)
        if not automatic:
            (committed,) = second.consumer.committed([TopicPartition(name, 0)], TIMEOUT_S)
            assert (committed.offset, committed.metadata) == (6, "half way")


def _consume_forever(bootstrap: str, group: str, topic: str, protocol: str, ready: object) -> None:
    settings = {"session_timeout_ms": 6000} if protocol == "classic" else {}
    member = Member(bootstrap, group, [topic], group_protocol=protocol, **settings)
    while True:
        member.poll()
        if member.partitions:
            ready.set()  # type: ignore[attr-defined]


def test_a_killed_member_loses_its_partitions_with_its_session(
    bootstrap: str, topic: TopicFactory, fresh: NameFactory
) -> None:
    name, group = topic(2), fresh("killed")
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    victim = context.Process(target=_consume_forever, args=(bootstrap, group, name, "classic", ready))
    victim.start()
    try:
        assert ready.wait(TIMEOUT_S)
        heir = Member(bootstrap, group, [name], session_timeout_ms=6000, heartbeat_interval_ms=500)
        with closing(heir):
            drive([heir], lambda: heir.partitions == 1)
            victim.kill()
            drive([heir], lambda: heir.partitions == 2)
    finally:
        victim.kill()
        victim.join()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_static_member_keeps_its_partitions_while_it_is_away(
    bootstrap: str, topic: TopicFactory, fresh: NameFactory, protocol: str
) -> None:
    name, group = topic(4), fresh("static")

    def member(instance: str) -> Member:
        return Member(bootstrap, group, [name], group_protocol=protocol, group_instance_id=instance)

    one, two = member("one"), member("two")
    with closing(one):
        drive([one, two], lambda: one.partitions == two.partitions == 2)
        own = {each.partition for each in two.consumer.assignment()}
        two.consumer.close()
        again = member("two")
        with closing(again):
            drive([one, again], lambda: again.partitions == 2)
            assert {each.partition for each in again.consumer.assignment()} == own
            assert one.partitions == 2


class Mixed:
    """librdkafka, kafka-python and aiokafka in one group, each polled on its own: while one waits
    for the others to join again, they must be polled. found: the values that they got. shares: the
    number of partitions of each."""

    def __init__(self, bootstrap: str, group: str, name: str, ours: aiokafka.AIOKafkaConsumer) -> None:
        self.found: set[bytes] = set()
        self.shares = [0, 0, 0]
        self.ours = ours
        settings = {"group_id": group, "auto_offset_reset": "earliest", "heartbeat_interval_ms": 300}
        self.other = kafka.KafkaConsumer(name, bootstrap_servers=bootstrap, **settings)
        self.own = Member(
            bootstrap, group, [name], partition_assignment_strategy="range", heartbeat_interval_ms=300
        )
        # For the threads of its own executor a loop waits at its end without a limit.
        self.in_thread = partial(asyncio.get_running_loop().run_in_executor, ThreadPoolExecutor())

    async def poll_ours(self) -> None:
        for batch in (await self.ours.getmany(timeout_ms=50)).values():
            self.found.update(one.value for one in batch)
        self.shares[0] = len(self.ours.assignment())

    async def poll_other(self) -> None:
        for batch in (await self.in_thread(self.other.poll, 50)).values():
            self.found.update(one.value for one in batch)
        self.shares[1] = len(self.other.assignment())

    async def poll_own(self) -> None:
        await self.in_thread(self.own.poll)
        self.found.update(self.own.values)
        self.shares[2] = self.own.partitions

    async def run(self, reached: Callable[[], bool]) -> None:
        """Polls until that is reached, or for two minutes; then all leave the group."""
        done = asyncio.Event()

        async def polling(poll: Callable[[], Awaitable[None]]) -> None:
            while not done.is_set():
                await poll()

        polls = [
            asyncio.create_task(polling(each)) for each in (self.poll_ours, self.poll_other, self.poll_own)
        ]
        deadline = time.monotonic() + 120
        try:
            while not reached() and time.monotonic() < deadline:
                await asyncio.sleep(0.05)
        finally:
            done.set()
            await asyncio.wait_for(asyncio.gather(*polls), TIMEOUT_S)
            closings = self.in_thread(self.other.close), self.in_thread(self.own.consumer.close)
            await asyncio.wait_for(asyncio.gather(self.ours.stop(), *closings), TIMEOUT_S)


def test_different_clients_share_one_group(bootstrap: str, topic: TopicFactory, fresh: NameFactory) -> None:
    """librdkafka, kafka-python and aiokafka agree on `range`; each is the leader once or not, as it
    comes."""
    name, group = topic(3), fresh("mixed")
    values = fill(bootstrap, name, 3)

    async def work() -> Mixed:
        ours = aiokafka.AIOKafkaConsumer(
            name,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=300,
            partition_assignment_strategy=[RangePartitionAssignor],
        )
        await ours.start()
        mixed = Mixed(bootstrap, group, name, ours)
        await mixed.run(lambda: mixed.shares == [1, 1, 1] and mixed.found == values)
        return mixed

    mixed = asyncio.run(work())
    assert mixed.shares == [1, 1, 1]
    assert mixed.found == values


def test_two_groups_read_everything_each(bootstrap: str, topic: TopicFactory, fresh: NameFactory) -> None:
    name = topic(2)
    values = fill(bootstrap, name, 2)
    members = [Member(bootstrap, fresh("apart"), [name]) for _ in range(2)]
    with closing(*members):
        drive(members, lambda: all(set(each.values) == values for each in members))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_unsubscribed_member_owns_nothing_and_comes_back(
    bootstrap: str, topic: TopicFactory, fresh: NameFactory, protocol: str
) -> None:
    name, other = topic(2), topic(1)
    member = Member(bootstrap, fresh("group"), [name], group_protocol=protocol)
    with closing(member):
        drive([member], lambda: member.partitions == 2)
        member.consumer.unsubscribe()
        drive([member], lambda: member.partitions == 0)
        member.consumer.subscribe([other])
        drive([member], lambda: member.partitions == 1)

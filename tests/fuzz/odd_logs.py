"""Logs of the three coordinators with odd records: they are loaded, and what was loaded is used.

Nothing but KafkaError may come out of it, no record may be left out for an exception that replay
did not foresee, and a client without an odd record is served as before.
"""

import logging
import random
import struct
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from typing import Any

from kbroker.control.coordinator.machine import Deferred, Machine, Record
from kbroker.control.coordinator.replay import Replay
from kbroker.control.groups.caller import Caller
from kbroker.control.groups.settings import GroupSettings
from kbroker.control.share.acquiring import Spec
from kbroker.control.share.limits import Limits
from kbroker.control.share.ranges import DeliveryState, Range
from kbroker.control.share.share_partition import SharePartition
from kbroker.control.share.state_shard import ShareKey, ShareStateShard
from kbroker.protocol.coordinator_records.index import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from kbroker.protocol.errors import KafkaError
from kbroker.protocol.messages.leave_group import MemberIdentity
from kbroker.protocol.messages.list_transactions import ListTransactionsRequest
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequestGroup
from kbroker.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kbroker.protocol.records import build_batch, read_batches
from tests.control.groups.classic_members import PROTOCOLS, classic_group
from tests.control.groups.consumer_members import Member
from tests.control.groups.coordinator import Coordinator
from tests.control.groups.streams_members import GROUP as STREAMS
from tests.control.groups.streams_members import Process, application
from tests.control.transactions.world import World, ongoing
from tests.fuzz.odd_records import damaged_log

SHARED = "team"
GROUPS = ("g", "empty", SHARED, STREAMS, "untouched")
KEYS = [ShareKey("team", bytes(range(16)), index) for index in range(4)]
LIMITS = Limits(lock_ms=1000, delivery_count=3, records=50)
IDS = ("a", "b", "c")


class Loaded(logging.Handler):
    """Replays records as the broker loads them; an error in the log fails."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.ERROR:
            raise AssertionError(record.getMessage()) from (record.exc_info or (None, None))[1]

    def load(self, machine: Machine, records: list[Record], now_ms: int, rng: random.Random) -> None:
        log = logging.getLogger("kbroker.control.coordinator.replay")
        log.addHandler(self)
        try:
            for record in records:
                data = build_batch(
                    [(record.key, record.value, (), now_ms)],
                    producer=(rng.choice((-1, 7)), 0, -1),
                    transactional=rng.random() < 0.05,
                )
                for batch in read_batches(data):
                    Replay(machine, 0, "odd-0").decode(batch)
        finally:
            log.removeHandler(self)
        machine.loaded(0, now_ms)


@cache
def group_records() -> tuple[Record, ...]:
    """Groups of all types, with members, and offsets."""
    kafka, _, _ = classic_group(2, GroupSettings())
    kafka.commit(group="empty", topic="t", offset=3)
    kafka.stable_group(2, ("one", "two"), group="static")
    upgraded, _, _ = classic_group(3)
    Member(upgraded, "new")
    consumers = Coordinator()
    consumers.topics.put("t", 6)
    first = Member(consumers, "m1", instance="i1")
    second = Member(consumers, "m2", topics=None, regex="t.*")
    for _ in range(4):
        consumers.advance(1000)
        first.beat()
        second.beat()
    consumers.commit(5, "m1", first.epoch)
    shares = _share_group()
    streams = application()
    processes = [Process(streams, "s1"), Process(streams, "s2")]
    for _ in range(4):
        streams.advance(1500)
        for each in processes:
            each.beat()
    return tuple(kafka.log + upgraded.log + consumers.log + shares.log + streams.log)


def _share_group() -> Coordinator:
    kafka = Coordinator()
    kafka.topics.put("t", 4)
    for _ in range(3):
        _share_beat(kafka, SHARED)
        kafka.advance(1000)
    return kafka


def _share_beat(kafka: Coordinator, group: str, name: str = "sharer") -> Any:
    request = ShareGroupHeartbeatRequest(group, name, 0, None, ["t"])
    return kafka.run(kafka.shard.share_heartbeat(Caller("client", "/host", 1), request, kafka.now_ms))


def groups_round(rng: random.Random) -> None:
    """Load odd groups, ask everything about them, then let time pass."""
    kafka = Coordinator()
    for name, count in (("t", 6), ("lines", 4), ("words", 4)):
        kafka.topics.put(name, count)
    good = [each for each in group_records() if rng.random() < 0.9]
    Loaded().load(kafka.shard, damaged_log(good, CONSUMER_OFFSETS, rng), kafka.now_ms, rng)
    steps: list[Callable[[], None]] = [
        partial(_ask, kafka, group) for group in {*GROUPS, *kafka.shard.group_ids()}
    ]
    steps += [lambda: kafka.advance(rng.choice((1, 3000, 50_000)))] * 3
    rng.shuffle(steps)
    for step in steps:
        step()
    kafka.advance(120_000)
    kafka.expire_offsets()
    assert kafka.commit(group="untouched", offset=9) == 0
    assert kafka.committed(group="untouched") == 9
    after = Coordinator(log=kafka.log)
    assert after.committed(group="untouched") == 9


def _ask(kafka: Coordinator, group: str) -> None:
    shard = kafka.shard
    kafka.shard.list(50, [], [])
    members = list(getattr(shard.table.groups.get(group), "members", ()))
    asks: list[Callable[[], Any]] = [
        lambda: shard.describe(group, 5),
        lambda: shard.describe_consumer_group(group),
        lambda: shard.describe_share_group(group),
        lambda: shard.describe_streams_group(group),
        lambda: kafka.send_join(group=group, protocols=PROTOCOLS, version=3),
        lambda: kafka.beat("new", topics=["t"], group=group),
        lambda: _share_beat(kafka, group),
        lambda: kafka.commit(group=group),
        lambda: shard.fetch_offsets(OffsetFetchRequestGroup(group, topics=None), False),
        lambda: shard.has_offsets_of(group, "t"),
        lambda: kafka.leave(*(MemberIdentity(each) for each in members[:1]), group=group),
        lambda: kafka.run(shard.partitions_deleted(group, [("t", 0)], b"a deleted topic.")),
        lambda: kafka.run(shard.delete(group)),
    ]
    if group == STREAMS:
        asks.append(lambda: Process(kafka, "later"))
    for member_id in members[:3]:
        asks.append(partial(_rejoin, kafka, group, member_id))
    for ask in asks:
        with suppress(KafkaError):
            answer = ask()
            if isinstance(answer, Deferred):
                answer.on_complete(_no_exception)


def _rejoin(kafka: Coordinator, group: str, member_id: str) -> None:
    """What a member that the log had does next, in either protocol."""
    known = kafka.shard.table.groups.get(group)  # None if its last member left, and it was deleted
    kafka.send_join(member_id, group=group, protocols=PROTOCOLS, version=3)
    kafka.send_sync(member_id, getattr(known, "generation_id", 1), {member_id: b""}, group=group)
    epoch = getattr(getattr(known, "members", {}).get(member_id), "member_epoch", 0)
    kafka.beat(member_id, epoch, owned={"t": [0]}, group=group)


def _no_exception(answer: Any) -> None:
    assert not isinstance(answer, Exception), answer


@cache
def transaction_records() -> tuple[Record, ...]:
    """Transactional ids in all states."""
    world = World()
    for name in IDS:
        producer = ongoing(world, 2, name)
        world.end(producer, version=2, name=name)
        if name != "a":
            world.write_markers()
        if name == "c":
            ongoing(world, 0, name)
    return tuple(world.log)


def transactions_round(rng: random.Random) -> None:
    """Load odd transactional ids, finish, list, time out, expire and use them."""
    world = World()
    Loaded().load(world.shard, damaged_log(transaction_records(), TRANSACTION_STATE, rng), world.now_ms, rng)
    for _ in range(3):
        for order in list(world.orders):
            struct.pack(">qhi", order.producer_id, order.producer_epoch, order.coordinator_epoch)
        world.write_markers()
        world.shard.table.ongoing()
        world.shard.list_transactions(ListTransactionsRequest(), world.now_ms)
        names = {*IDS, *(each.transactional_id for each in world.shard.table.all())}
        for name in names - {""}:
            with suppress(KafkaError):
                world.shard.describe(name)
            with suppress(KafkaError):
                ongoing(world, name=name)
        world.abort_timed_out()
        for name in world.shard.table.ids():
            world.run(world.shard.expire(name, world.now_ms))
        world.now_ms += rng.choice((1, 70_000, 8 * 24 * 3600 * 1000))
    producer = world.init(name="untouched")
    assert World(world.log).known("untouched").producer_id == producer[0]


@cache
def share_records() -> tuple[Record, ...]:
    """Snapshots and updates of some shared partitions."""
    shard, log = ShareStateShard(3), []
    for turn in range(6):
        for key in KEYS:
            changed = [Range(turn * 5 + at, turn * 5 + at + 1, DeliveryState(at), at) for at in (0, 2, 4)]
            for record in shard.write(key, turn * 2, changed, 1000).records:
                log.append(record)
                shard.replay(0, record.key, record.value, 1000)
    return tuple(log)


def share_round(rng: random.Random) -> None:
    """Load odd states of shared partitions, and give their records to members."""
    shard = ShareStateShard(3)
    Loaded().load(shard, damaged_log(share_records(), SHARE_GROUP_STATE, rng), 1000, rng)
    for key in [*KEYS, *shard.keys_in(0)]:
        stored = shard.get(key)
        if stored is not None and stored.start_offset >= 0:
            partition = SharePartition(stored.start_offset, list(stored.ranges))
            first = partition.next_offset(LIMITS)
            if first < 2**63 - 100:
                partition.acquire("m", [(first, first + 20)], Spec(10), LIMITS, 1000)
            partition.release("m", LIMITS, 2000)
            partition.expire(LIMITS, 10_000)
            assert partition.in_flight() >= 0
            start, changed = partition.take_changes() or (stored.start_offset, [])
            for outcome in (
                shard.write(key, start, changed, 1000),
                shard.rewrite(key, 1000),
                shard.restart_at(key, 7, 1000),
            ):
                for record in outcome.records:
                    shard.replay(0, record.key, record.value, 1000)
        for record in shard.delete(key).records:
            shard.replay(0, record.key, record.value, 1000)
        assert shard.get(key) is None

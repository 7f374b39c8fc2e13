"""Elections and in-sync sets with fake IO workers: who leads, which processes are notified, what is
stored."""

import asyncio
import time
from pathlib import Path

import pytest

from kbroker.config.alter import Alteration, Op
from kbroker.control.changes.config_change import alter
from kbroker.control.metadata.config_resource import BROKER, TOPIC
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.control.replication import service
from kbroker.control.replication.lag import Lag
from kbroker.control.replication.service import Replication
from kbroker.ipc.layout import ProcessLine, Slot, SlotState
from kbroker.ipc.messages import Follow, Lead
from kbroker.protocol.errors import ErrorCode, KafkaError
from tests.control.fakes import FullStore, World
from tests.control.replication.replicated_topic import create, lose, only, shown, sited


def test_replicas_are_placed_on_different_sites_and_leaders_go_round(tmp_path: Path) -> None:
    made = sited(tmp_path)
    create(made, NewTopic("a", 3, 2))
    partitions = made.broker.catalogue.topics["a"].partitions
    assert [made.broker.nodes.of(p.replicas) for p in partitions] == [[1, 2], [2, 3], [3, 1]]
    assert [p.worker for p in partitions] == [0, 1, 2]
    for partition in partitions:
        lead, follow = (made.workers[r.worker].opened[r.slot].role for r in partition.replicas)
        assert isinstance(lead, Lead)
        assert lead.in_sync == (partition.replicas[1].slot,)
        assert isinstance(follow, Follow)
        assert follow.leader_slot == partition.slot


def test_a_factor_above_the_number_of_sites_is_refused_and_clamped_for_internal_topics(
    tmp_path: Path,
) -> None:
    made = sited(tmp_path, 2)
    refused = create(made, NewTopic("a", 1, 3))["a"]
    assert isinstance(refused, KafkaError)
    assert refused.code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert "because only 2 broker(s) are registered" in str(refused)
    create(made, NewTopic("__consumer_offsets", 1, 3))
    assert len(made.broker.catalogue.topics["__consumer_offsets"].partitions[0].replicas) == 2


def test_a_lost_worker_is_led_for_by_the_next_in_sync_replica(tmp_path: Path) -> None:
    made = sited(tmp_path)
    create(made, NewTopic("a", 1, 3))
    replication = Replication(made.broker)
    old = only(made).slot
    lose(made, 0)
    asyncio.run(replication.worker_lost(0))
    assert shown(made) == (2, [1, 2, 3], [2, 3])
    assert only(made).leader_epoch == 1
    assert only(made).slot != old
    assert made.network.topics["a"].partitions[0].slot == only(made).slot
    assert Lead(only(made).slot, 1, (only(made).replicas[2].slot,), _others(made), 1) in made.workers[1].calls
    made.broker.close()
    assert made.start().catalogue.topics["a"].partitions[0].leader_epoch == 1
    assert shown(made) == (2, [1, 2, 3], [2, 3])


def test_a_listener_is_called_once_another_replica_leads(tmp_path: Path) -> None:
    """Also when the decision is taken back: appends may have been sent to the new leader."""
    made = sited(tmp_path, 2)
    create(made, NewTopic("a", 1, 2))
    replication, store, seen = Replication(made.broker), FullStore(made), list[tuple[int, bool]]()

    def listener() -> None:
        seen.append((shown(made)[0], any(isinstance(call, Lead) for call in made.workers[1].calls)))

    made.broker.listeners.leaders.append(listener)
    lose(made, 0)
    asyncio.run(replication.worker_lost(0))
    assert seen == [(1, False)]
    store.full = False
    asyncio.run(replication.check())
    assert seen == [(1, False), (2, True)]


def test_answers_of_before_are_out_of_date_as_soon_as_others_show_the_next_leader(tmp_path: Path) -> None:
    """Before the decision is stored, which takes a while on a busy disk."""
    made = sited(tmp_path)
    create(made, NewTopic("a", 1, 3))
    before, stored = made.broker.catalogue.version, made.broker.in_store
    seen: list[tuple[int, bool]] = []

    async def in_store(work: object) -> object:
        seen.append((shown(made)[0], made.broker.catalogue.version > before))
        return await stored(work)

    vars(made.broker)["in_store"] = in_store
    lose(made, 0)
    asyncio.run(Replication(made.broker).worker_lost(0))
    assert seen == [(2, True)]
    at_last = made.broker.catalogue.version
    assert at_last > before + 1, "what was cached with the decision on its way is out of date, too"


def _others(made: World) -> tuple[tuple[int, int], ...]:
    return tuple((r.slot, r.worker) for r in only(made).replicas if r is not only(made).leader)


def test_the_last_in_sync_replica_stays_and_leads_again(tmp_path: Path) -> None:
    made = sited(tmp_path, 2)
    create(made, NewTopic("a", 1, 2))
    replication = Replication(made.broker)
    lose(made, 1)
    asyncio.run(replication.worker_lost(1))
    assert shown(made) == (1, [1, 2], [1])
    lose(made, 0)
    asyncio.run(replication.worker_lost(0))
    assert not only(made).has_leader
    made.broker.links.add_worker(1, made.workers[1])
    asyncio.run(replication.worker_returned(1))
    assert not only(made).has_leader  # it lacks what the other had alone
    made.broker.links.add_worker(0, made.workers[0])
    asyncio.run(replication.worker_returned(0))
    assert only(made).has_leader
    assert shown(made) == (1, [1, 2], [1])


def test_an_unclean_election_takes_what_is_left_when_the_topic_allows_it(tmp_path: Path) -> None:
    made = sited(tmp_path, 2)
    create(made, NewTopic("a", 1, 2, configs={"unclean.leader.election.enable": "true"}))
    replication = Replication(made.broker)
    only(made).replicas[1].in_sync = False
    lose(made, 0)
    asyncio.run(replication.worker_lost(0))
    assert shown(made) == (2, [1, 2], [2])


def test_no_replica_leads_alone_before_that_is_stored(tmp_path: Path) -> None:
    """Otherwise it would take records that the next start does not know it has alone: the replica
    that was lost would lead, and the records would be cut off."""
    made = sited(tmp_path, 2)
    create(made, NewTopic("a", 1, 2))
    replication, store = Replication(made.broker), FullStore(made)
    lose(made, 0)
    before = len(made.workers[1].calls)
    asyncio.run(replication.worker_lost(0))
    asyncio.run(replication.check())
    assert shown(made) == (1, [1, 2], [1, 2])
    assert not any(isinstance(call, Lead) for call in made.workers[1].calls[before:])
    assert made.network.topics["a"].partitions[0].slot == only(made).replicas[0].slot
    store.full = False
    asyncio.run(replication.check())
    assert shown(made) == (2, [1, 2], [2])
    assert Lead(only(made).slot, 1, (), _others(made), 1) in made.workers[1].calls
    made.broker.close()
    made.start()
    assert shown(made) == (2, [1, 2], [2])


def test_a_copy_that_lags_is_waited_for_until_the_store_has_it_out_of_sync(tmp_path: Path) -> None:
    made = sited(tmp_path, 2, **{"replica.lag.time.max.ms": "0"})
    create(made, NewTopic("a", 1, 2))
    replication, store = Replication(made.broker), FullStore(made)
    made.shared.slots[only(made).slot, Slot.LOG_END] = 5
    with pytest.raises(KafkaError):
        asyncio.run(replication.check())
    assert shown(made) == (1, [1, 2], [1, 2])
    assert Lead(only(made).slot, 0, (), _others(made), 1) not in made.workers[0].calls
    store.full = False
    asyncio.run(replication.check())
    assert shown(made) == (1, [1, 2], [1])
    assert Lead(only(made).slot, 0, (), _others(made), 1) in made.workers[0].calls


def test_a_leader_that_has_stopped_for_its_successor_leads_again(tmp_path: Path) -> None:
    """When it is not stored that the successor leads."""
    made = sited(tmp_path, 2)
    create(made, NewTopic("a", 1, 2))
    partition, replication = only(made), Replication(made.broker)
    partition.leader = partition.replicas[1]
    store = FullStore(made)
    with pytest.raises(KafkaError) as refused:
        asyncio.run(replication.elect_on_demand(partition, unclean=False))
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert shown(made) == (2, [1, 2], [1, 2])
    assert partition.leader_epoch == 0
    assert [type(call) for call in made.workers[1].calls[-2:]] == [Follow, Lead]
    store.full = False
    asyncio.run(replication.elect_on_demand(partition, unclean=False))
    assert shown(made)[0] == 1


def test_a_failed_log_dir_is_seen_by_the_clock(tmp_path: Path) -> None:
    made = sited(tmp_path)
    create(made, NewTopic("a", 1, 3))
    replication = Replication(made.broker)
    made.shared.slots[only(made).slot, Slot.STATE] = SlotState.OFFLINE
    asyncio.run(replication.check())
    assert shown(made) == (2, [1, 2, 3], [2, 3])


def test_the_preferred_replica_leads_again_on_demand(tmp_path: Path) -> None:
    made = sited(tmp_path, 2)
    create(made, NewTopic("a", 1, 2))
    replication = Replication(made.broker)
    partition = only(made)
    with pytest.raises(KafkaError) as refused:
        asyncio.run(replication.elect_on_demand(partition, unclean=False))
    assert refused.value.code is ErrorCode.ELECTION_NOT_NEEDED
    partition.leader = partition.replicas[1]
    asyncio.run(replication.elect_on_demand(partition, unclean=False))
    assert shown(made)[0] == 1
    assert partition.leader_epoch == 1


def test_a_copy_joins_a_new_leader_when_it_has_all_that_the_leader_began_with(tmp_path: Path) -> None:
    """The new leader's high watermark may be behind what was acknowledged before."""
    made = sited(tmp_path, 2)
    create(made, NewTopic("a", 1, 2))
    words, partition = made.shared.slots, only(made)
    leader, copy = partition.replicas
    copy.in_sync = False
    lag = Lag(words, lambda: 0)
    words[leader.slot, Slot.LOG_END] = 12
    words[leader.slot, Slot.HIGH_WATERMARK] = 7
    for begun, end, joins in [(10, 9, 0), (10, 10, 1), (Slot.NOT_LED, 12, 0), (0, 6, 0), (0, 7, 1)]:
        words[leader.slot, Slot.EPOCH_START] = begun
        words[copy.slot, Slot.LOG_END] = end
        assert len(lag.find([partition], 250)[1]) == joins, (begun, end)


def test_a_copy_lags_after_its_time_and_joins_when_it_has_what_is_committed(tmp_path: Path) -> None:
    made = sited(tmp_path, 2)
    create(made, NewTopic("a", 1, 2))
    now = [0]
    words, partition = made.shared.slots, only(made)
    leader, copy = partition.replicas
    lag = Lag(words, lambda: now[0])
    words[leader.slot, Slot.LOG_END] = 10

    def look() -> tuple[int, int]:
        now[0] += 100
        late, joining = lag.find([partition], 250)
        return len(late), len(joining)

    assert [look() for _ in range(4)] == [(0, 0), (0, 0), (0, 0), (1, 0)]
    copy.in_sync = False
    words[leader.slot, Slot.HIGH_WATERMARK] = 10
    assert look() == (0, 0)
    words[copy.slot, Slot.LOG_END] = 10
    assert look() == (0, 1)
    words[copy.slot, Slot.LEADER_EPOCH] = -1  # has not agreed with this leader yet
    assert look() == (0, 0)


def test_a_copy_that_hangs_does_not_join_although_it_has_what_is_committed(tmp_path: Path) -> None:
    """Below min.insync.replicas the high watermark does not move."""
    made = sited(tmp_path, 2)
    create(made, NewTopic("a", 1, 2))
    words, partition = made.shared.slots, only(made)
    leader, copy = partition.replicas
    lag = Lag(words, lambda: 0)
    words[leader.slot, Slot.LOG_END] = 10
    words[leader.slot, Slot.HIGH_WATERMARK] = words[copy.slot, Slot.LOG_END] = 7

    def joins() -> bool:
        return bool(lag.find([partition], 250)[1])

    assert not joins()
    copy.in_sync = False
    assert not any(joins() for _ in range(3))
    words[copy.slot, Slot.LOG_END] = 8  # it copies again
    assert joins()
    words[copy.slot, Slot.LOG_END] = 10
    copy.in_sync = True
    assert not joins()
    words[leader.slot, Slot.LOG_END] = 12
    copy.in_sync = False
    assert not joins()


def test_preferred_replicas_that_are_in_sync_lead_again(tmp_path: Path) -> None:
    made = sited(tmp_path)
    create(made, NewTopic("a", 1, 3))
    replication = Replication(made.broker)
    lose(made, 0)
    asyncio.run(replication.worker_lost(0))
    assert asyncio.run(replication.elect_preferred()) == 0
    made.broker.links.add_worker(0, made.workers[0])
    assert asyncio.run(replication.elect_preferred()) == 0, "it is not in sync yet"
    only(made).replicas[0].in_sync = True
    assert asyncio.run(replication.elect_preferred()) == 1
    assert shown(made)[0] == 1
    assert asyncio.run(replication.elect_preferred()) == 0


def test_a_worker_that_hangs_is_as_good_as_dead(tmp_path: Path) -> None:
    """In a disk that does not answer, for instance. Its epoch is fenced when it wakes up."""
    hour_ms = 3_600_000
    made = sited(tmp_path, **{"broker.session.timeout.ms": str(hour_ms)})
    create(made, NewTopic("a", 1, 3))
    replication = Replication(made.broker)
    line = made.shared.processes[made.shared.worker_process(0)]
    line[ProcessLine.HEARTBEAT_NS] = time.monotonic_ns() - hour_ms * 1_000_000 // 2
    asyncio.run(replication.check())
    assert shown(made) == (1, [1, 2, 3], [1, 2, 3])
    line[ProcessLine.HEARTBEAT_NS] = time.monotonic_ns() - hour_ms * 1_000_000
    asyncio.run(replication.check())
    assert shown(made) == (2, [1, 2, 3], [2, 3])


def test_a_copy_on_a_worker_that_hangs_leaves_the_in_sync_set(tmp_path: Path) -> None:
    made = sited(tmp_path, **{"broker.session.timeout.ms": "3600000"})
    create(made, NewTopic("a", 1, 3))
    line = made.shared.processes[made.shared.worker_process(1)]
    line[ProcessLine.HEARTBEAT_NS] = time.monotonic_ns() - 2 * 3_600_000 * 1_000_000
    asyncio.run(Replication(made.broker).check())
    assert shown(made) == (1, [1, 2, 3], [1, 3])
    assert only(made).leader_epoch == 0


def test_a_replica_is_available_while_its_own_log_is_open(tmp_path: Path) -> None:
    made = sited(tmp_path, 2)
    create(made, NewTopic("a", 1, 2))
    replication, words = Replication(made.broker), made.shared.slots
    replica = only(made).replicas[1]
    assert replication.is_available(replica)
    words[replica.slot, Slot.GENERATION] += 1
    assert not replication.is_available(replica), "the slot has another log"
    words[replica.slot, Slot.GENERATION] -= 1
    words[replica.slot, Slot.STATE] = SlotState.RECOVERING
    assert not replication.is_available(replica)
    made.broker.switching.add(replica.slot)
    assert replication.is_available(replica), "it will be, once it has switched its log dir"


def test_the_checks_continue_after_one_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made = sited(tmp_path)
    create(made, NewTopic("a", 1, 3))
    checks: list[int] = []

    async def body() -> None:
        replication = Replication(made.broker)
        checked = asyncio.Event()

        async def check() -> None:
            checks.append(len(checks))
            if len(checks) == 1:
                raise ValueError("a bug")
            checked.set()

        monkeypatch.setattr(replication, "check", check)
        running = asyncio.ensure_future(replication.run())
        await asyncio.wait_for(checked.wait(), 30)
        running.cancel()

    for name in ("TICK_S", "FAILED_S"):
        monkeypatch.setattr(service, name, 0.0)
    asyncio.run(body())
    assert len(checks) >= 2
    assert [record.message for record in caplog.records if record.exc_info] == [
        "replicas could not be checked"
    ]


def test_an_election_that_is_not_needed_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    made = sited(tmp_path)
    create(made, NewTopic("a", 1, 3))
    replication, partition = Replication(made.broker), only(made)

    def refusal(unclean: bool) -> ErrorCode:
        with pytest.raises(KafkaError) as refused:
            asyncio.run(replication.elect_on_demand(partition, unclean))
        return refused.value.code

    assert refusal(unclean=True) is ErrorCode.ELECTION_NOT_NEEDED
    partition.leader = partition.replicas[1]
    assert refusal(unclean=True) is ErrorCode.ELECTION_NOT_NEEDED, "it has a leader"
    partition.replicas[0].in_sync = False
    assert refusal(unclean=False) is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert (partition.leader, partition.leader_epoch) == (partition.replicas[1], 0)


@pytest.mark.parametrize(("kind", "name"), [(TOPIC, "a"), (BROKER, "")])
def test_leaders_get_a_new_min_insync_replicas(tmp_path: Path, kind: int, name: str) -> None:
    made = sited(tmp_path, 2)
    create(made, NewTopic("a", 1, 2), NewTopic("single", 1, 1))
    partition, replication = only(made), Replication(made.broker)
    change = alter(made.broker, kind, name, [Alteration("min.insync.replicas", Op.SET, "2")], False)
    asyncio.run(change)
    asyncio.run(replication.check())
    lead = Lead(partition.slot, 0, (partition.replicas[1].slot,), _others(made), 2)
    assert [call for call in made.workers[0].calls if isinstance(call, Lead)] == [lead]
    asyncio.run(replication.check())
    assert made.workers[0].calls.count(lead) == 1

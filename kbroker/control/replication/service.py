"""Elections and in-sync sets: watches workers, disks and replicas, decides, and sends out the
decision.

A decision is stored, then sent to the IO workers, then to the network processes. An in-sync set
grows at the leader before it grows in the store, and shrinks in the other order (docs/adr/0008).
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

from kbroker.control.broker import Broker
from kbroker.control.images import next_image
from kbroker.control.metadata.catalogue import Partition, Replica
from kbroker.control.metadata.config_resource import BROKER, TOPIC
from kbroker.control.replication.election import Leaderships, electable
from kbroker.control.replication.lag import Lag
from kbroker.control.replication.role_calls import RoleCalls
from kbroker.control.store.change import Change
from kbroker.ipc.crash_point import crash_point
from kbroker.ipc.layout import ProcessLine, Slot, SlotState
from kbroker.ipc.messages import Follow
from kbroker.metrics.slots import bind
from kbroker.protocol.epochs import MAX_EPOCH
from kbroker.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

TICK_S = 0.2
FAILED_S = 1.0  # after a check that failed by a bug
MAX_BALANCED = 1000  # partitions at one check
CATCH_UP_S = 1.0  # a new leader's time to copy the last records of a previous leader that still runs
SHRINKS = bind("kbroker_isr_shrinks_total")
EXPANDS = bind("kbroker_isr_expands_total")
ELECTIONS = bind("kbroker_leader_elections_total")
UNCLEAN_ELECTIONS = bind("kbroker_unclean_leader_elections_total")


class Replication:
    """Runs in: control. Owner: Services. Decisions are made one after another.

    after_check: called after every check of the replicas.
    """

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._deciding = asyncio.Lock()
        self.after_check: list[Callable[[], Awaitable[None]]] = []
        self._roles = RoleCalls(broker)
        self._lag = Lag(broker.shared.slots)
        broker.listeners.config.append(self._config_changed)

    @property
    def deciding(self) -> asyncio.Lock:
        """Held while replicas, leaders or in-sync sets are changed."""
        return self._deciding

    async def run(self) -> None:
        """Check all replicas periodically; started when every IO worker has opened its logs."""
        await self.settle(self.partitions())
        config = self.broker.config
        interval_s = config.get_int("leader.imbalance.check.interval.seconds")
        due_s = time.monotonic() + interval_s
        while True:
            await asyncio.sleep(TICK_S)
            try:
                await self.check()
                if config.get_bool("auto.leader.rebalance.enable") and time.monotonic() >= due_s:
                    due_s = time.monotonic() + interval_s
                    await self.elect_preferred()
                for step in self.after_check:
                    await step()
            except KafkaError as error:
                log.error("replicas could not be checked: %s", error)
            except Exception:  # a bug, but without checks nothing leads for a dead IO worker
                log.exception("replicas could not be checked")
                await asyncio.sleep(FAILED_S)

    def partitions(self) -> list[Partition]:
        """All partitions that have more than one replica."""
        return [partition for partition in self.broker.catalogue.partitions() if partition.replicated]

    def is_available(self, replica: Replica) -> bool:
        """Whether a replica's log is open in a living worker, or will be once it has switched its
        log dir."""
        slots = self.broker.slots
        return (
            self.broker.links.worker(replica.worker) is not None
            and self._is_responsive(replica.worker)
            and slots.word(replica.slot, Slot.GENERATION) == replica.generation
            and (
                slots.state(replica.slot) == SlotState.ONLINE
                or (
                    replica.slot in self.broker.switching
                    and slots.state(replica.slot) == SlotState.RECOVERING
                )
            )
        )

    def _is_responsive(self, worker: int) -> bool:
        """A worker that hangs (in a disk that does not answer) is as good as dead: epochs fence it
        when it wakes up."""
        shared = self.broker.shared
        beat = int(shared.processes[shared.worker_process(worker), ProcessLine.HEARTBEAT_NS])
        timeout_ms = self.broker.config.get_int("broker.session.timeout.ms")
        return beat == 0 or time.monotonic_ns() - beat < timeout_ms * 1_000_000

    # --- events ------------------------------------------------------------------------------------------

    async def worker_lost(self, worker: int) -> None:
        """An IO worker has died: other replicas lead its partitions, and its copies are out of
        sync."""
        affected = [p for p in self.partitions() if any(r.worker == worker for r in p.replicas)]
        for replica in (r for p in affected for r in p.replicas if r.worker == worker):
            self._roles.forget(replica)
        if affected:
            await self.settle(affected)

    async def worker_returned(self, worker: int) -> None:
        """The successor of an IO worker has opened its logs, in their last roles."""
        affected = [p for p in self.partitions() if any(r.worker == worker for r in p.replicas)]
        if affected:
            await self.settle(affected)
            async with self._deciding:
                await self._roles.send(affected)

    def _config_changed(self, kind: int, name: str) -> None:
        """A leader's role has its topic's min.insync.replicas: the next check sends the roles that
        have changed."""
        if kind == BROKER:
            self._roles.suspect(self.partitions())
        elif kind == TOPIC and (topic := self.broker.catalogue.get(name)) is not None:
            self._roles.suspect(p for p in topic.partitions if p.replicated)

    async def check(self) -> None:
        """Called on a timer: handle logs that went offline, copies that lag, and copies that have
        caught up."""
        self._roles.repeat_alone()
        partitions = self.partitions()
        if not partitions:
            return
        lost = [p for p in partitions if self._is_lost(p)]
        if lost:
            await self.settle(lost)
        max_lag_ns = self.broker.config.get_int("replica.lag.time.max.ms") * 1_000_000
        late, caught_up = self._lag.find(partitions, max_lag_ns)
        if late:
            await self._shrink(late)
        joining = [(p, r) for p, r in caught_up if p.has_leader and self.is_available(r)]
        if joining:
            await self._expand(joining)
        if again := self._roles.take_unconfirmed(partitions):
            async with self._deciding:
                await self._roles.send(again)

    def _is_lost(self, partition: Partition) -> bool:
        if not partition.has_leader or not self.is_available(partition.leader):
            return (
                partition.has_leader
                or electable(partition, self.is_available, self._unclean(partition)) is not None
            )
        return any(r.in_sync and not self.is_available(r) for r in partition.replicas)

    # --- decisions ---------------------------------------------------------------------------------------

    async def settle(self, partitions: Iterable[Partition]) -> None:
        """Elect leaders for partitions whose leader is unavailable, and remove unavailable replicas
        from the in-sync sets. `check` tries again what cannot be stored."""
        async with self._deciding:
            listed = list(partitions)
            before = Leaderships(listed)
            changed = [partition for partition in listed if self._decide(partition)]
            if changed:
                with suppress(KafkaError):
                    await self._publish_or_restore(changed, before)

    def _unclean(self, partition: Partition) -> bool:
        return self.broker.topic_config(partition.topic).unclean_leader_election_enable

    def _decide(self, partition: Partition, unclean: bool = False) -> bool:
        """Whether anything about the partition has changed."""
        changed = False
        if not self.is_available(partition.leader):
            chosen = electable(partition, self.is_available, unclean or self._unclean(partition))
            if chosen is None:
                changed, partition.has_leader = partition.has_leader, False
                if changed:
                    log.error(
                        "%s-%d has no leader: no in-sync replica is available",
                        partition.topic,
                        partition.index,
                    )
                return changed
            self.elect(partition, chosen)
            changed = True
        elif not partition.has_leader:
            partition.has_leader = changed = True
        for replica in partition.replicas:
            if replica.in_sync and replica is not partition.leader and not self.is_available(replica):
                replica.in_sync = False
                self.broker.metrics.words[SHRINKS] += 1
                changed = True
        return changed

    def elect(self, partition: Partition, chosen: Replica) -> None:
        """Make a replica the leader, with a new epoch; after an unclean election it is alone in
        sync."""
        metrics = self.broker.metrics.words
        metrics[ELECTIONS] += 1
        if not chosen.in_sync:
            metrics[UNCLEAN_ELECTIONS] += 1
            log.error("%s-%d: unclean election, records may be lost", partition.topic, partition.index)
            for replica in partition.replicas:
                replica.in_sync = False
        partition.leader = chosen
        partition.leader_epoch = min(partition.leader_epoch + 1, MAX_EPOCH)
        partition.has_leader = chosen.in_sync = True
        for replica in partition.replicas:
            replica.joining = False

    async def _shrink(self, late: list[tuple[Partition, Replica]]) -> None:
        async with self._deciding:
            gone = [(p, r) for p, r in late if r.in_sync and r is not p.leader]
            before = Leaderships(p for p, _ in gone)
            for partition, replica in gone:
                log.warning(
                    "%s is out of sync with node %d",
                    replica.folder,
                    self.broker.nodes.node_of(partition.leader),
                )
                replica.in_sync = False
                self.broker.metrics.words[SHRINKS] += 1
            if gone:
                await self._publish_or_restore([partition for partition, _ in gone], before)

    async def _expand(self, caught_up: list[tuple[Partition, Replica]]) -> None:
        """The leader waits for the replica first; when it had all below the high watermark then, it
        is in sync."""
        async with self._deciding:
            joining = [
                (p, r) for p, r in caught_up if not r.in_sync and r is not p.leader and r in p.replicas
            ]
            for _, replica in joining:
                replica.joining = True
                # it must not be throttled: the leader waits for it
                self.broker.shared.in_sync[replica.slot] = 1
            answers = await self._roles.send_to_leaders(partition for partition, _ in joining)
            joined = []
            for (partition, replica), complete in zip(joining, answers, strict=True):
                replica.joining = False
                self.broker.shared.in_sync[replica.slot] = complete is True
                if complete is True:
                    replica.in_sync = True
                    self.broker.metrics.words[EXPANDS] += 1
                    joined.append(partition)
            if joined:
                log.info("%d replicas are in sync again", len(joined))
                with suppress(KafkaError):  # the leader waits for them, whatever the next start knows
                    await self._store(joined)
                await self._announce(joined)
            await self._roles.send(
                [p for (p, _), complete in zip(joining, answers, strict=True) if complete is not True]
            )

    async def move(self, partition: Partition, target: Replica) -> None:
        """Another in-sync replica becomes leader while the old one is there: it stops, the new one
        copies the rest."""
        old = partition.leader
        await self._roles.replace(old, Follow(old.slot, partition.leader_epoch, -1, -1, -1, ""))
        slots = self.broker.slots
        for _ in range(int(CATCH_UP_S / 0.002)):
            if slots.word(target.slot, Slot.LOG_END) >= slots.word(old.slot, Slot.LOG_END):
                break
            await asyncio.sleep(0.002)
        self.elect(partition, target)

    async def elect_preferred(self) -> int:
        """Return leadership to preferred replicas that are in sync again; returns the number of
        partitions.

        Source: Kafka's ReplicationControlManager.maybeBalancePartitionLeaders."""
        moved = 0
        for partition in self.partitions():
            if partition.leader is partition.replicas[0] or partition.adding or partition.removing:
                continue
            if moved == MAX_BALANCED:
                break
            with suppress(KafkaError):  # it is unavailable, or another change was faster
                await self.elect_on_demand(partition, unclean=False)
                moved += 1
        if moved:
            log.info("%d partitions are led by their preferred replica again", moved)
        return moved

    async def elect_on_demand(self, partition: Partition, unclean: bool) -> None:
        """ElectLeaders: of the preferred replica, or of any that is left when the partition has no
        leader.

        Raises ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE,
        ELIGIBLE_LEADERS_NOT_AVAILABLE."""
        async with self._deciding:
            led = partition.has_leader and self.is_available(partition.leader)
            preferred = partition.replicas[0]
            before = Leaderships([partition])
            if led and (unclean or partition.leader is preferred):
                raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED)
            if unclean:
                if not self._decide(partition, unclean=True) or not partition.has_leader:
                    raise KafkaError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)
            elif not preferred.in_sync or not self.is_available(preferred):
                raise KafkaError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
            elif led:
                await self.move(partition, preferred)
            else:
                self.elect(partition, preferred)
            await self._publish_or_restore([partition], before)

    async def move_log(
        self, partition: Partition, replica: Replica, log_dir: str, store: Callable[[Change], Awaitable[bool]]
    ) -> bool:
        """A replica's log is in another log dir from now on: stored, then sent to its followers.
        Returns False, or raises KafkaError, as `store` does; then the log stays where it is."""
        async with self._deciding:
            if not await store(Change(moved_partitions=[partition.with_moved(replica, log_dir)])):
                return False
            if partition.replicated:
                await self._roles.send([partition])
        return True

    async def become_sole_leader(self, partition: Partition) -> None:
        """The last other replica is gone: the leader's high watermark is its log's end again."""
        await self._roles.lead_alone(partition)

    def moving(self) -> list[Partition]:
        """Partitions with a pending reassignment."""
        return [p for p in self.broker.catalogue.partitions() if p.adding or p.removing]

    # --- publishing -----------------------------------------------------------------------------------------

    async def publish(self, changed: list[Partition]) -> None:
        """Store decisions, then send them out. Raises KafkaError: they cannot be stored, and
        nothing was sent.

        Cached answers are out of date at once: others, computed meanwhile, show the decisions, and
        clients of both would see a leader change twice."""
        self.broker.catalogue.changed()
        await self._store(changed)
        await self.send_out(changed)

    async def send_out(self, changed: list[Partition]) -> None:
        """Send stored decisions to IO workers and network processes, then show them to clients."""
        self.broker.catalogue.changed()
        crash_point("leader change: decision stored")
        await self._roles.send(changed)
        crash_point("leader change: leader confirmed")
        self._report_leaders()
        await self._announce(changed)

    async def _publish_or_restore(self, changed: list[Partition], before: Leaderships) -> None:
        """As `publish`. A decision that cannot be stored is undone: records that a leader takes
        without the others would be lost if the next start elected one of them. A leader that has
        stopped for its successor leads again."""
        try:
            await self.publish(changed)
        except KafkaError:
            await self.restore(changed, before)
            raise

    async def restore(self, changed: list[Partition], before: Leaderships) -> None:
        """Undo decisions that are not stored; logs get their previous roles again."""
        before.restore()
        self.broker.catalogue.changed()
        await self._roles.send(changed)
        self._report_leaders()

    def _report_leaders(self) -> None:
        for listener in self.broker.listeners.leaders:
            listener()

    async def _announce(self, changed: list[Partition]) -> None:
        broker = self.broker
        names = dict.fromkeys(partition.topic for partition in changed)
        topics = (broker.announcing.get(name) or broker.catalogue.get(name) for name in names)
        images = tuple(topic.image() for topic in topics if topic is not None)
        broker.catalogue.changed()
        await broker.links.announce(next_image(broker, images))

    async def _store(self, changed: list[Partition]) -> None:
        change = Change(led_partitions=changed)
        try:
            await self.broker.in_store(lambda store: store.apply(change))
        except KafkaError:
            log.error("cannot store leaders and in-sync replicas of %d partitions", len(changed))
            raise

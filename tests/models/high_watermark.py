"""The high watermark of a partition with replicas, and the election of its leader (docs/adr/0008;
kbroker/io/replication, kbroker/control/replication).

A leader's IO worker appends and advances the high watermark (`Leading`); followers truncate and
copy (`Following`); control elects leaders, shrinks and expands the in-sync set (`Replication`),
stores each decision, then sends it. IO workers are killed and restart with their log; until then
the slot and the files of a dead one stay, and are read. A log may be lost with its disk.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

REPLICAS = 3
RECORDS = 2
DEATHS = 2

Log = tuple[int, ...]  # the leader epoch of each record


class Replica(NamedTuple):
    """epoch: the one that it leads or follows, -1 for none yet. mark: the high watermark of its
    slot. begun: the offset at which its leadership began. waits_for: the replicas that the leader
    counts as in sync; empty in a follower."""

    alive: bool = True
    log: Log = ()
    mark: int = 0
    epoch: int = 0
    begun: int = 0
    leads: bool = False
    waits_for: frozenset[int] = frozenset()


class MarkState(NamedTuple):
    """leader, epoch, in_sync: as stored. acknowledged: records acknowledged with acks=all. joining:
    a replica that the leader must wait for before it counts as in sync."""

    replicas: tuple[Replica, ...]
    leader: int = 0
    epoch: int = 0
    in_sync: frozenset[int] = frozenset(range(REPLICAS))
    acknowledged: Log = ()
    joining: int = -1
    appended: int = 0
    deaths: int = 0


@dataclass(frozen=True)
class MarkModel:
    """Each flag adds a bug. largest: the high watermark is the largest log end of the in-sync
    replicas, not the smallest. any_epoch: a replica counts before it follows the leader's epoch.
    not_cut: a follower copies without truncating records that its leader lacks. stored_first: the
    in-sync set expands in the store before the leader waits for the replica. sent_first: it shrinks
    at the leader before it is stored. mark_alone: a replica joins when it has the records below the
    high watermark (an earlier bug: that of a new leader lags).
    """

    largest: bool = False
    any_epoch: bool = False
    not_cut: bool = False
    stored_first: bool = False
    sent_first: bool = False
    mark_alone: bool = False

    @property
    def promises(self) -> Mapping[str, Callable[[MarkState], bool]]:
        return {
            "what acks=all has answered is in every log that may be elected": _kept,
            "logs agree below their high watermarks": _agree,
        }

    def starts(self) -> Iterator[MarkState]:
        everyone = frozenset(range(REPLICAS))
        followers = (Replica(),) * (REPLICAS - 1)
        yield MarkState((Replica(leads=True, waits_for=everyone - {0}), *followers))

    def is_end(self, s: MarkState) -> bool:
        return s.appended == RECORDS

    def steps(self, s: MarkState) -> Iterator[tuple[str, MarkState]]:
        for number, replica in enumerate(s.replicas):
            if replica.alive:
                if replica.leads:
                    yield from self._lead(s, number, replica)
                elif number != s.leader:
                    yield from self._follow(s, number, replica)
                if s.deaths < DEATHS:
                    yield from self._die(s, number, replica)
            elif s.leader != number:
                back = Replica(log=replica.log, mark=replica.mark, epoch=-1)
                yield f"worker {number} is back, its log follows", _with(s, number, back)
        yield from self._control(s)

    # --- IO workers ----------------------------------------------------------------------------------------

    def _lead(self, s: MarkState, number: int, leader: Replica) -> Iterator[tuple[str, MarkState]]:
        if s.appended < RECORDS:
            grown = leader._replace(log=(*leader.log, leader.epoch))
            yield f"leader {number}: append", _with(s, number, grown)._replace(appended=s.appended + 1)
        ends = [len(leader.log)]
        for other in leader.waits_for:
            copy = s.replicas[other]
            counts = copy.epoch == leader.epoch or self.any_epoch
            ends.append(len(copy.log) if counts else -1)
        mark = max(ends) if self.largest else min(ends)
        if mark > leader.mark:
            known = leader.log[:mark]
            answered = max(s.acknowledged, known, key=len) if number == s.leader else s.acknowledged
            moved = _with(s, number, leader._replace(mark=mark))
            yield (
                f"leader {number}: Leading.advance to {mark}, acks=all answered",
                moved._replace(acknowledged=answered),
            )

    def _follow(self, s: MarkState, number: int, follower: Replica) -> Iterator[tuple[str, MarkState]]:
        leader = s.replicas[s.leader]
        if not leader.leads or leader.epoch != s.epoch:
            return
        if follower.epoch != s.epoch:
            end = 0  # LeaderEpochFileCache: the offset at which the logs diverge
            while follower.log[: end + 1] == leader.log[: end + 1] and end < min(
                len(follower.log), len(leader.log)
            ):
                end += 1
            log = follower.log if self.not_cut else follower.log[:end]
            agreed = follower._replace(log=log, mark=min(follower.mark, len(log)), epoch=s.epoch)
            yield (
                f"follower {number}: agree with epoch {s.epoch}, cut to {len(log)}",
                _with(s, number, agreed),
            )
            return
        if len(follower.log) < len(leader.log):
            end = len(follower.log)
            yield (
                f"follower {number}: copy a record",
                _with(s, number, follower._replace(log=(*follower.log, leader.log[end]))),
            )
        mark = min(leader.mark, len(follower.log))
        if mark > follower.mark:
            yield f"follower {number}: mark {mark}", _with(s, number, follower._replace(mark=mark))

    def _die(self, s: MarkState, number: int, replica: Replica) -> Iterator[tuple[str, MarkState]]:
        dead = replica._replace(alive=False)
        died = s._replace(deaths=s.deaths + 1)
        yield f"worker {number} is killed", _with(died, number, dead)
        # or a leader loses its disk for good, and nothing else happens: a replica in sync is left
        if not s.deaths and number == s.leader and s.in_sync - {number}:
            empty = Replica(alive=False, epoch=-1)
            lost = _with(died, number, empty)._replace(deaths=DEATHS, in_sync=s.in_sync - {number})
            yield f"worker {number} is killed, its disk is lost", lost

    # --- control -------------------------------------------------------------------------------------------

    def _control(self, s: MarkState) -> Iterator[tuple[str, MarkState]]:
        leader = s.replicas[s.leader]
        if not leader.alive:
            for number in sorted(s.in_sync):
                if s.replicas[number].alive:
                    yield (
                        f"control: elect {number}, epoch {s.epoch + 1} stored",
                        s._replace(
                            leader=number, epoch=s.epoch + 1, in_sync=s.in_sync - {s.leader}, joining=-1
                        ),
                    )
                    break  # the first of the assignment
            return
        if leader.epoch != s.epoch or not leader.leads:
            begun = leader._replace(
                leads=True, epoch=s.epoch, begun=len(leader.log), waits_for=s.in_sync - {s.leader}
            )
            yield f"leader {s.leader}: Leading.lead, epoch {s.epoch}", _with(s, s.leader, begun)
            return
        yield from self._shrink(s, leader)
        yield from self._expand(s, leader)

    def _shrink(self, s: MarkState, leader: Replica) -> Iterator[tuple[str, MarkState]]:
        waits_for = s.in_sync - {s.leader}
        for number in sorted(waits_for):
            smaller = leader._replace(waits_for=leader.waits_for - {number})
            if s.replicas[number].alive:  # late: one of them at most, or every set is looked at
                continue
            if self.sent_first:
                if number in leader.waits_for:
                    yield f"leader {s.leader}: waits for {number} no more", _with(s, s.leader, smaller)
                else:
                    yield (
                        f"control: {number} is out of sync, stored",
                        s._replace(in_sync=s.in_sync - {number}),
                    )
            else:
                yield f"control: {number} is out of sync, stored", s._replace(in_sync=s.in_sync - {number})
        extra = leader.waits_for - waits_for - {s.joining}
        if extra and not self.sent_first:
            less = leader._replace(waits_for=leader.waits_for - extra)
            yield f"leader {s.leader}: waits for {sorted(extra)} no more", _with(s, s.leader, less)

    def _expand(self, s: MarkState, leader: Replica) -> Iterator[tuple[str, MarkState]]:
        expected = leader.mark if self.mark_alone else max(leader.mark, leader.begun)
        for number, replica in enumerate(s.replicas):
            if number in s.in_sync or not replica.alive or replica.epoch != s.epoch:
                continue
            if self.stored_first:
                if len(replica.log) >= expected:
                    yield f"control: {number} is in sync, stored", s._replace(in_sync=s.in_sync | {number})
            elif s.joining < 0 and len(replica.log) >= expected:  # Lag: it has caught up
                waiting = leader._replace(waits_for=leader.waits_for | {number})
                yield (
                    f"leader {s.leader}: Leading.lead, waits for {number}",
                    _with(s, s.leader, waiting)._replace(joining=number),
                )
            elif s.joining == number and number in leader.waits_for:
                grown = s._replace(in_sync=s.in_sync | {number}, joining=-1)
                yield f"control: {number} is in sync, stored", grown
        if self.stored_first and (missing := s.in_sync - {s.leader} - leader.waits_for):
            waiting = leader._replace(waits_for=leader.waits_for | missing)
            yield f"leader {s.leader}: Leading.lead, waits for {sorted(missing)}", _with(s, s.leader, waiting)


def _with(s: MarkState, number: int, replica: Replica) -> MarkState:
    return s._replace(replicas=(*s.replicas[:number], replica, *s.replicas[number + 1 :]))


def _kept(s: MarkState) -> bool:
    end = len(s.acknowledged)
    return all(s.replicas[number].log[:end] == s.acknowledged for number in s.in_sync)


def _agree(s: MarkState) -> bool:
    for one in s.replicas:
        for other in s.replicas:
            end = min(one.mark, other.mark)
            if one.log[:end] != other.log[:end]:
                return False
    return True

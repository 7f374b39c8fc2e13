"""A group's own settings, each by its name: consumer, share and streams groups have their own."""

from collections.abc import Mapping
from typing import Any

import pytest

from kbroker.control.groups.caller import Caller
from kbroker.control.groups.timer_names import member_timer
from kbroker.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.control.groups.coordinator import START_MS, Coordinator
from tests.control.groups.streams_members import GROUP, Process

KINDS = ("consumer", "share", "streams")
STEP_MS = 500
OF_ANOTHER_KIND = "1500"


class Members:
    """The members of a group that has settings of its own, and as many of the other kinds."""

    def __init__(self, kind: str, own: Mapping[str, int]) -> None:
        self.kind = kind
        self.kafka = Coordinator()
        self.kafka.topics.put("lines", 4)
        others = {f"{each}.{name}": OF_ANOTHER_KIND for each in KINDS for name in own}
        values = {f"{kind}.{name}": str(value) for name, value in own.items()}
        self.kafka.shard.table.overrides.put(GROUP, others | values)
        self.epochs: dict[str, int] = {}
        self.processes: dict[str, Process] = {}

    @property
    def group(self) -> Any:
        return self.kafka.shard.table.groups[GROUP]

    def beat(self, name: str) -> Any:
        response = self._answer(name, self.epochs.get(name, 0))
        self.epochs[name] = response.member_epoch
        return response

    def _answer(self, name: str, epoch: int) -> Any:
        if self.kind == "consumer":
            return self.kafka.beat(name, epoch, ["lines"], group=GROUP)
        if self.kind == "share":
            request = ShareGroupHeartbeatRequest(GROUP, name, epoch, None, ["lines"])
            caller = Caller("client", "/host", 1)
            return self.kafka.run(self.kafka.shard.share_heartbeat(caller, request, self.kafka.now_ms))
        if name not in self.processes:
            self.processes[name] = Process(self.kafka, name)
        return self.processes[name].beat().response

    def assigned_ms(self) -> int:
        """When the group's newest epoch was assigned."""
        for _ in range(100):
            if self.group.assignment_epoch == self.group.group_epoch:
                break
            self.kafka.advance(STEP_MS)
            self.beat("a")
        found = self.group.assignment_timestamp_ms
        assert isinstance(found, int)
        return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_group_has_its_own_interval_of_heartbeats(kind: str) -> None:
    assert Members(kind, {"heartbeat.interval.ms": 7000}).beat("a").heartbeat_interval_ms == 7000


@pytest.mark.parametrize("kind", KINDS)
def test_a_group_has_its_own_session_timeout(kind: str) -> None:
    members = Members(kind, {"session.timeout.ms": 9000})
    members.beat("a")
    session = members.kafka.timers[member_timer("session-timeout", GROUP, "a")]
    assert session.expiry_ms - members.kafka.now_ms == 9000


@pytest.mark.parametrize("kind", KINDS)
def test_a_group_has_its_own_interval_of_assignments(kind: str) -> None:
    members = Members(kind, {"assignment.interval.ms": 7000, "initial.rebalance.delay.ms": 0})
    for _ in range(3):  # the partitions of a share group have states, the application its topics
        members.beat("a")
        members.kafka.advance(STEP_MS)
    first_ms = members.assigned_ms()
    members.beat("b")
    assert members.group.assignment_epoch < members.group.group_epoch
    assert members.assigned_ms() - first_ms == 7000


def test_a_streams_group_has_its_own_wait_for_members() -> None:
    members = Members("streams", {"initial.rebalance.delay.ms": 2500})
    members.beat("a")
    assert members.group.assignment_epoch < members.group.group_epoch
    assert members.assigned_ms() - START_MS == 2500

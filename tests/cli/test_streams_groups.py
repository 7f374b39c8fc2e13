"""`kbroker groups` for streams groups, as kafka-streams-groups.sh, against Apache Kafka and against
kbroker."""

from typing import Any

import pytest

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.streams_group_heartbeat import (
    RequestTaskIds,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    Topology,
)
from tests.cli.conftest import Shell, Target
from tests.compat.raw import SocketPeer
from tests.peer.eventually import eventually

MEMBER = "S" * 22
NOT_READY = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
LEAVE = -1


class Member:
    """The only member of a streams group; it reads one topic."""

    def __init__(self, target: Target, group: str, topic: str) -> None:
        self.peer = SocketPeer(int(target.bootstrap.rpartition(":")[2]), "streams-client")
        self.group, self.epoch = group, 0
        self.topology = Topology(0, [Subtopology("0", [topic])])
        self.active: dict[str, list[int]] = {}

    def beat(self) -> bool:
        """Whether it has tasks."""
        first = self.epoch == 0
        self.epoch = self.ask(
            StreamsGroupHeartbeatRequest(
                self.group, MEMBER, self.epoch,
                rebalance_timeout_ms=30_000 if first else -1,
                topology=self.topology if first else None,
                process_id="p" if first else None,
                active_tasks=[RequestTaskIds(key, each) for key, each in self.active.items()],
                standby_tasks=[], warmup_tasks=[],
            )
        )  # fmt: skip
        return bool(self.active)

    def leave(self) -> None:
        self.ask(StreamsGroupHeartbeatRequest(self.group, MEMBER, LEAVE))

    def ask(self, request: StreamsGroupHeartbeatRequest) -> int:
        answer: Any = self.peer.ask(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, request)
        if answer.error_code in NOT_READY:
            return self.epoch
        assert answer.error_code == 0, answer
        if answer.active_tasks is not None:
            self.active = {each.subtopology_id: each.partitions for each in answer.active_tasks}
        return int(answer.member_epoch)


@pytest.fixture
def filled(cli: Shell, topic: str, group: str) -> str:
    """A topic with nine records in each partition. Another group has used the coordinator, which
    creates its topic for the first group of a broker."""
    for number in range(3):
        cli("produce", topic, "-p", number, "-q", stdin=b"a\n" * 9)
    cli("consume", topic, "--group", f"{group}-before", "--from-beginning", "-n", 1, "-q")
    return topic


def offsets(cli: Shell, group: str) -> dict[int, tuple[int | None, int]]:
    """Offset and lag of each partition."""
    (found,) = cli("groups", "describe", group, "--json").json
    assert found["type"] == "streams"
    return {row["partition"]: (row["current_offset"], row["lag"]) for row in found["partitions"]}


def test_offsets_of_a_streams_group_are_described_reset_and_deleted(
    cli: Shell, target: Target, filled: str, group: str
) -> None:
    member = Member(target, group, filled)
    eventually(member.beat)
    member.beat()  # it runs its tasks
    assert offsets(cli, group) == dict.fromkeys(range(3), (None, 9))
    members = cli("groups", "describe", group, "--members").lines[-1]
    assert members.split()[0] == MEMBER
    assert members.split()[-3:] == [f"{filled}:{number}" for number in range(3)]
    reset = ("groups", "reset-offsets", group)
    running = cli(*reset, "--topic", filled, "--to-latest", "--execute", code=1).stderr
    assert "with 1 member: stop its consumers first" in running

    member.leave()
    (row,) = cli("groups", "list", group, "--type", "streams", "--json").json
    assert (row["group"], row["state"]) == (group, "Empty")
    cli(*reset, "--topic", filled, "--to-offset", 4, "--execute")
    assert offsets(cli, group) == dict.fromkeys(range(3), (4, 5))
    cli(*reset, "--all-topics", "--shift-by", -1, "--execute")
    saved = cli(*reset, "--all-topics", "--to-current", "--export").lines
    assert saved == [f"{filled},{number},3" for number in range(3)]
    cli("groups", "delete-offsets", group, f"{filled}:0,1", "--yes")
    assert {number for number, (offset, _) in offsets(cli, group).items() if offset is not None} == {2}
    cli("groups", "delete", group, "--yes")
    assert cli("groups", "list", group, "--json").json == []

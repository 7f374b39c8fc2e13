"""Requests of members in a running rebalance: their fast path answers with the same bytes as the
ordinary one, which serves the same requests when they come with many bytes after them."""

import asyncio
import logging
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.api import join_group, sync_group
from kbroker.api.error_counts import NONE
from kbroker.api.rebalance_requests import FIRST_VERSIONS
from kbroker.config.authorizer import Authorizer
from kbroker.control import requests as module
from kbroker.control.coordinator.machine import Deferred
from kbroker.control.groups.classic_group import ClassicGroup
from kbroker.control.groups.classic_member import ClassicMember
from kbroker.control.groups.classic_state import ClassicState
from kbroker.control.groups.member_answers import FramedAnswer
from kbroker.control.requests import SLICED_FROM_BYTES, Requests
from kbroker.ipc.background import Background
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.frame import encode_request
from kbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kbroker.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kbroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kbroker.protocol.schema import Struct
from tests.api.in_process import dispatch_of
from tests.control.fakes import world
from tests.control.groups.commit_scene import PEER
from tests.control.groups.commit_scene import Scene as Coordinator
from tests.ipc.request_block import pack_request
from tests.opcodes import opcodes

GROUP, GENERATION = "rebalancing", 7
MEMBERS = tuple(f"member-{number}-" + "x" * number * 20 for number in range(10))
LEADER, FIRST, SECOND, THIRD, *_, LAST = MEMBERS
MORE = [(9, member_id) for member_id in MEMBERS[4:]]
SESSION_MS, REBALANCE_MS = 1_800_000, 7_200_000
"""Timers run by the clock of the host: on a busy one a test may stand still for a minute, and then
one of the two ways would end the join phase early."""
TURNS = 50
Body = Callable[["Scene"], Awaitable[None]]


def subscription(number: int) -> bytes:
    return struct.pack(">hih1si", 0, 1, 1, b"t", -1) + bytes(number)


class Link:
    """Keeps the answers, by calls."""

    closed = False

    def __init__(self) -> None:
        self.answers: dict[int, bytes | None] = {}

    def reply(self, call: int, value: Any = None) -> None:
        self.answers[call] = value if value is None else bytes(value)


class Scene(Coordinator):
    """A stable group of classic members. padded: its requests come with many bytes after them, so
    that the ordinary path serves them. fast: how many the fast path has served."""

    def __init__(self, made: Any, padded: bool) -> None:
        super().__init__(made)
        self.padded = padded
        self.fast = 0
        self.peer = Link()
        self.background = Background(logging.getLogger(__name__), "failed")
        self.requests = Requests(self.broker, dispatch_of(self.broker), self.background)
        self._take_part = self.service.take_part
        self.service.take_part = self._counted  # type: ignore[method-assign]

    async def begin(self) -> None:
        await super().begin()
        group = self.group = ClassicGroup(GROUP, 0, ClassicState.STABLE, GENERATION, "consumer", "range")
        for member_id in MEMBERS:
            protocols = [("range", subscription(0)), ("other", b"")]
            group.add(
                ClassicMember(
                    member_id, None, "c", "/127.0.0.1", REBALANCE_MS, SESSION_MS, "consumer", protocols
                )
            )
        self.shard.table.groups[GROUP] = group

    def _counted(self, request: JoinGroupRequest | SyncGroupRequest, answer: FramedAnswer) -> bool:
        taken = self._take_part(request, answer)
        self.fast += taken
        return taken

    def take(self, api: ApiKey, version: int, *requests: Struct) -> int:
        """Serve a block of requests, whose calls are their numbers; the opcodes that it took."""
        block = bytearray()
        for request in requests:
            self.calls += 1
            frame = encode_request(api, version, 1000 + self.calls, "c", request)[4:]
            frame += bytes(SLICED_FROM_BYTES if self.padded else 0)
            block += pack_request(self.calls, PEER, frame)
        return opcodes(lambda: self.requests.take_block(self.peer, block))

    async def settle(self) -> None:
        """Let everything happen that has been begun. Requests that are served in slices take as
        many turns as their CPU time is long, which depends on what else the host does."""
        await self.background.wait(60)
        for _ in range(TURNS):
            await asyncio.sleep(0)


def play(folder: Path, padded: bool, body: Body) -> tuple[dict[int, bytes | None], list[int], int]:
    """The answers, the counts of their error codes, and how many requests the fast path served."""

    async def run() -> Scene:
        scene = Scene(made, padded)
        await scene.begin()
        try:
            await body(scene)
            await scene.settle()
        finally:
            scene.runtime.close()
        return scene

    with world(folder) as made:
        scene = asyncio.run(run())
        words = made.broker.metrics.words
        counts = [
            int(words[NONE[api] + code])
            for api in (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP)
            for code in range(max(ErrorCode))
        ]
    return scene.peer.answers, counts, scene.fast


def compare(folder: Path, body: Body) -> tuple[dict[int, bytes | None], int]:
    """Plays the same both ways; the answers, and how many requests the fast path served."""
    answers, counts, fast = play(folder / "fast", False, body)
    ordinary, ordinary_counts, none = play(folder / "ordinary", True, body)
    assert none == 0
    assert answers == ordinary
    assert counts == ordinary_counts
    return answers, fast


def join(member_id: str, metadata: int = 1, **more: Any) -> JoinGroupRequest:
    names = more.pop("names", ("range", "other"))
    protocols = [JoinGroupRequestProtocol(name, subscription(metadata)) for name in names]
    fields = {"session_timeout_ms": SESSION_MS, "protocol_type": "consumer"} | more
    return JoinGroupRequest(
        GROUP, rebalance_timeout_ms=REBALANCE_MS, member_id=member_id, protocols=protocols, **fields
    )


def sync(member_id: str, given: dict[str, bytes] | None = None, **more: Any) -> SyncGroupRequest:
    parts = [SyncGroupRequestAssignment(each, part) for each, part in (given or {}).items()]
    fields = {
        "group_id": GROUP,
        "generation_id": GENERATION + 1,
        "protocol_type": "consumer",
        "protocol_name": "range",
    } | more
    return SyncGroupRequest(member_id=member_id, assignments=parts, **fields)


ASSIGNMENT = {member_id: b"p" * 40 * number for number, member_id in enumerate(MEMBERS)}
VERSIONS = [(version, min(version, 5)) for version in range(10)]


@pytest.mark.parametrize(("joins", "syncs"), VERSIONS)
def test_a_rebalance_is_answered_with_the_same_bytes(tmp_path: Path, joins: int, syncs: int) -> None:
    async def body(scene: Scene) -> None:
        for member_id in MEMBERS:
            scene.take(ApiKey.JOIN_GROUP, joins, join(member_id))
            await scene.settle()
        assert scene.group.state is ClassicState.COMPLETING_REBALANCE
        scene.take(ApiKey.SYNC_GROUP, syncs, sync(FIRST))
        await scene.settle()
        scene.log.hold = True
        scene.take(ApiKey.SYNC_GROUP, syncs, sync(LEADER, ASSIGNMENT))
        await scene.settle()
        scene.take(ApiKey.SYNC_GROUP, syncs, sync(SECOND), sync(THIRD))
        await scene.settle()
        assert len(scene.peer.answers) == len(MEMBERS)  # no assignment that is not in the log
        scene.log.hold = False
        scene.log.release()
        await scene.settle()
        scene.take(ApiKey.SYNC_GROUP, syncs, sync(LAST))
        await scene.settle()
        assert scene.group.state is ClassicState.STABLE

    answers, fast = compare(tmp_path, body)
    assert len(answers) == len(MEMBERS) + 5
    # the first JoinGroup begins the rebalance, the last one ends its join phase
    assert fast == (len(MEMBERS) - 2 if joins else 0) + 4


def test_a_rebalance_costs_less_than_on_the_ordinary_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BLOCKS_NS", 10**12)  # counting opcodes takes milliseconds

    async def body(scene: Scene) -> None:
        servers = scene.broker.listeners.request_servers
        for metadata in range(1, 5):  # the first two compile decoders and encoders
            held = dict(servers)
            if not metadata % 2:
                servers.clear()
            costs.append(
                sum(scene.take(ApiKey.JOIN_GROUP, 9, join(member_id, metadata)) for member_id in MEMBERS)
            )
            servers |= held

    costs: list[int] = []
    _, _, fast = play(tmp_path, False, body)
    assert fast == 2 * (len(MEMBERS) - 2)
    # the rest, as log lines for whatever handlers there are, costs the same in both
    assert costs[3] - costs[2] > 500 * len(MEMBERS)


def test_a_member_that_is_removed_while_it_waits_gets_the_error(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        for member_id in (LEADER, FIRST, SECOND):
            scene.take(ApiKey.JOIN_GROUP, 9, join(member_id))
            await scene.settle()
        leaving = LeaveGroupRequest(GROUP, members=[MemberIdentity(FIRST)])
        scene.take(ApiKey.LEAVE_GROUP, 5, leaving)
        await scene.settle()

    answers, fast = compare(tmp_path, body)
    assert fast == 2
    assert sorted(answers) == [2, 4]
    assert answers[2] is not None
    assert struct.unpack_from(">h", answers[2], 13) == (ErrorCode.UNKNOWN_MEMBER_ID,)


@pytest.mark.parametrize("version", [0, 4, 5])
def test_a_new_rebalance_answers_those_that_wait_for_their_assignment(tmp_path: Path, version: int) -> None:
    async def body(scene: Scene) -> None:
        for member_id in MEMBERS:
            scene.take(ApiKey.JOIN_GROUP, 9, join(member_id))
            await scene.settle()
        scene.take(ApiKey.SYNC_GROUP, version, sync(FIRST), sync(SECOND))
        await scene.settle()
        scene.take(ApiKey.JOIN_GROUP, 9, join(THIRD, 2))
        await scene.settle()

    answers, fast = compare(tmp_path, body)
    assert fast == len(MEMBERS) - 2 + 2
    assert len(answers) == len(MEMBERS) + 2


def test_an_assignment_that_cannot_be_stored_is_an_error_of_all(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        for member_id in MEMBERS:
            scene.take(ApiKey.JOIN_GROUP, 9, join(member_id))
            await scene.settle()
        scene.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        scene.take(ApiKey.SYNC_GROUP, 5, sync(FIRST), sync(LEADER, ASSIGNMENT))
        await scene.settle()

    answers, _ = compare(tmp_path, body)
    assert len(answers) == len(MEMBERS) + 2


@pytest.mark.parametrize(
    "request_",
    [
        join("unknown"),
        join(""),
        join(SECOND, group_instance_id="instance"),
        join(SECOND, protocol_type="connect"),
        join(SECOND, names=("unknown",)),
        join(SECOND, names=()),
        join(SECOND, session_timeout_ms=1),
        join(FIRST),  # it waits already
        sync(SECOND),  # it has not joined
    ],
)
def test_other_requests_of_the_join_phase_are_left_to_the_ordinary_path(
    tmp_path: Path, request_: Struct, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kbroker.control.groups.join.uuid", SimpleNamespace(uuid4=lambda: "made"))

    async def body(scene: Scene) -> None:
        for member_id in (LEADER, FIRST):
            scene.take(ApiKey.JOIN_GROUP, 9, join(member_id))
            await scene.settle()
        joins = isinstance(request_, JoinGroupRequest)
        scene.take(*((ApiKey.JOIN_GROUP, 9) if joins else (ApiKey.SYNC_GROUP, 5)), request_)
        await scene.settle()

    _, fast = compare(tmp_path, body)
    assert fast == 1


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (sync("unknown"), 5),
        (sync(SECOND, generation_id=GENERATION), 5),
        (sync(SECOND, protocol_name="other"), 5),
        (sync(SECOND, protocol_type="connect"), 5),
        (sync(SECOND, protocol_name=None), 5),
        (sync(SECOND, group_instance_id="instance"), 5),
        (sync(SECOND, group_id=""), 5),
        (sync(SECOND, group_id="absent"), 5),
        (sync(SECOND, {SECOND: b"a"}), 5),
        (sync(LEADER), 5),
    ],
)
def test_other_requests_of_the_sync_phase_are_left_to_the_ordinary_path(
    tmp_path: Path, request_: SyncGroupRequest, version: int
) -> None:
    async def body(scene: Scene) -> None:
        for member_id in MEMBERS:
            scene.take(ApiKey.JOIN_GROUP, 9, join(member_id))
            await scene.settle()
        before = scene.fast
        scene.take(ApiKey.SYNC_GROUP, version, request_)
        await scene.settle()
        assert scene.fast == before

    compare(tmp_path, body)


def test_a_text_that_the_version_cannot_hold_is_an_error_of_those_that_use_it(tmp_path: Path) -> None:
    """The id of a leader begins with its client id, and may be longer than an answer can hold."""
    long = "l" * (1 << 15)

    async def body(scene: Scene) -> None:
        scene.group.members = {
            long if member_id == LEADER else member_id: member
            for member_id, member in scene.group.members.items()
        }
        scene.group.members[long].member_id = scene.group.leader_id = long
        for version, member_id in ((9, FIRST), (5, SECOND), (9, THIRD), *MORE):
            scene.take(ApiKey.JOIN_GROUP, version, join(member_id))
            if member_id == FIRST:  # the leader joins, too
                scene.group.members[long].awaiting_join = Deferred()
                scene.group.awaiting_join += 1
            await scene.settle()

    answers, fast = compare(tmp_path, body)
    assert fast == len(MEMBERS) - 3
    assert len(answers) == len(MEMBERS) - 1
    assert answers[2] is not None
    assert struct.unpack_from(">h", answers[2], 12) == (ErrorCode.UNKNOWN_SERVER_ERROR,)


def test_with_an_authorizer_every_request_is_checked(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        scene.broker.authorizer = Authorizer(frozenset(), False)
        for member_id in (LEADER, FIRST, SECOND):
            scene.take(ApiKey.JOIN_GROUP, 9, join(member_id))
            await scene.settle()

    answers, fast = compare(tmp_path, body)
    assert fast == 0
    assert len(answers) == 3  # refused


def test_a_truncated_request_is_left_to_the_ordinary_path(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        scene.take(ApiKey.JOIN_GROUP, 9, join(LEADER))
        await scene.settle()
        frame = encode_request(ApiKey.JOIN_GROUP, 9, 1, "c", join(FIRST))[4:-9]
        scene.requests.take_block(scene.peer, bytearray(pack_request(77, PEER, frame)))
        await scene.settle()

    answers, _, fast = play(tmp_path, False, body)
    assert fast == 0
    assert answers == {77: None}


def test_the_first_versions_are_those_with_all_that_is_needed() -> None:
    assert ((join_group, 1), (sync_group, 0)) == FIRST_VERSIONS
    assert JoinGroupRequest.SCHEMA.fields[2].name == "rebalance_timeout_ms"
    assert JoinGroupRequest.SCHEMA.fields[2].versions[0] == 1

"""Members of classic groups over raw connections in one event loop: far lighter than real clients.

Each has a connection of its own. What a broker answers with an error raises LoadFailed, except
where it is part of the protocol (MEMBER_ID_REQUIRED, REBALANCE_IN_PROGRESS).
"""

import asyncio
import struct
from collections.abc import Sequence
from typing import Any

from bench.generator import LoadFailed
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import decode_exact
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.frame import encode_request, parse_response
from kbroker.protocol.messages import response_class
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from kbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kbroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kbroker.protocol.schema import Struct

VERSIONS = {
    ApiKey.FIND_COORDINATOR: 4,
    ApiKey.JOIN_GROUP: 9,
    ApiKey.SYNC_GROUP: 5,
    ApiKey.HEARTBEAT: 4,
    ApiKey.OFFSET_COMMIT: 8,
}
CORRELATION_ID = 7
RETRY_S = 0.1
RETRIABLE = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
HEARTBEAT_S = 1.0
ASSIGNMENT = struct.pack(">hii", 0, 0, -1)


def subscription(number: int) -> bytes:
    """Metadata of a consumer: one topic, and the number as its user data."""
    return struct.pack(">hih4sii", 0, 1, 4, b"none", 4, number)


def request_frame(api: ApiKey, request: Struct) -> bytes:
    """A request as it goes over the wire, in the version that this load uses."""
    return encode_request(api, VERSIONS[api], CORRELATION_ID, "bench", request)


class Member:
    """One member. member_id and generation are those of the last rebalance; members: all of them,
    for the leader only.

    assigned: the generation of its assignment, -1 while it joins. joins: how often its metadata has
    changed; a member that joins again with the same metadata does not begin a rebalance.
    """

    def __init__(self, port: int, group_id: str, session_ms: int = 30_000) -> None:
        self.group_id = group_id
        self.member_id = ""
        self.generation = -1
        self.members: list[str] = []
        self.assigned = -1
        self.joins = 0
        self._port = port
        self._session_ms = session_ms
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def connect(self) -> None:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)

    async def ask(self, api: ApiKey, request: Struct) -> Any:
        """The answer to one request."""
        self._writer.write(request_frame(api, request))
        try:
            (length,) = struct.unpack(">i", await self._reader.readexactly(4))
            frame = await self._reader.readexactly(length)
        except (asyncio.IncompleteReadError, OSError) as error:
            raise LoadFailed(f"{self.group_id}: the broker closed a connection") from error
        _, start = parse_response(frame, api, VERSIONS[api])
        return decode_exact(response_class(api), VERSIONS[api], frame, start)

    async def find_coordinator(self) -> None:
        """Makes the coordinator's topic, and waits until the group has its coordinator."""
        while True:
            answer = await self.ask(
                ApiKey.FIND_COORDINATOR, FindCoordinatorRequest(coordinator_keys=[self.group_id])
            )
            if answer.coordinators[0].error_code == ErrorCode.NONE:
                break
            await asyncio.sleep(RETRY_S)
        while (await self._heartbeat()) in RETRIABLE:
            await asyncio.sleep(RETRY_S)

    async def join(self) -> None:
        """Takes part in a rebalance, up to its own assignment."""
        self.assigned = -1
        while True:
            answer = await self.ask(ApiKey.JOIN_GROUP, self._join_request())
            if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = answer.member_id
            elif answer.error_code == ErrorCode.NONE:
                break
            elif answer.error_code not in RETRIABLE:
                raise LoadFailed(f"{self.group_id}: JoinGroup failed with {answer.error_code}")
        self.member_id, self.generation = answer.member_id, answer.generation_id
        self.members = [each.member_id for each in answer.members] if answer.leader == self.member_id else []
        await self._sync()

    def _join_request(self) -> JoinGroupRequest:
        return JoinGroupRequest(
            self.group_id,
            self._session_ms,
            60_000,
            self.member_id,
            None,
            "consumer",
            [JoinGroupRequestProtocol("range", subscription(self.joins))],
        )

    async def _sync(self) -> None:
        assignments = [SyncGroupRequestAssignment(each, ASSIGNMENT) for each in self.members]
        request = SyncGroupRequest(
            self.group_id, self.generation, self.member_id, None, "consumer", "range", assignments
        )
        answer = await self.ask(ApiKey.SYNC_GROUP, request)
        if answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            await self.join()
        elif answer.error_code or answer.assignment != ASSIGNMENT:
            raise LoadFailed(f"{self.group_id}: SyncGroup failed with {answer.error_code}")
        else:
            self.assigned = self.generation

    def heartbeat_request(self) -> HeartbeatRequest:
        return HeartbeatRequest(self.group_id, self.generation, self.member_id)

    async def _heartbeat(self) -> int:
        answer = await self.ask(ApiKey.HEARTBEAT, self.heartbeat_request())
        return int(answer.error_code)

    async def heartbeat(self) -> None:
        """One heartbeat; joins again when the group rebalances."""
        code = await self._heartbeat()
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            await self.join()
        elif code:
            raise LoadFailed(f"{self.group_id}: Heartbeat failed with {code}")

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


async def gather_group(port: int, group_id: str, count: int, session_ms: int = 30_000) -> list[Member]:
    """A stable group of so many members."""
    members = [Member(port, group_id, session_ms) for _ in range(count)]
    for member in members:
        await member.connect()
    await members[0].find_coordinator()
    await settle(members)
    return members


async def rebalance(members: Sequence[Member]) -> None:
    """Every member of a stable group joins again with changed metadata, up to the next stable
    group."""
    for member in members:
        member.joins += 1
    await settle(members)


async def settle(members: Sequence[Member]) -> None:
    """All members join, until all have their assignment of one generation.

    Those that have theirs keep their sessions by heartbeats, for the last ones may be long in
    coming, and join again as often as the group rebalances.
    """
    settled = asyncio.Event()

    async def take_part(member: Member) -> None:
        await member.join()
        while True:
            assigned = {each.assigned for each in members}
            if len(assigned) == 1 and -1 not in assigned:
                settled.set()
            try:
                await asyncio.wait_for(settled.wait(), HEARTBEAT_S)
            except TimeoutError:
                await member.heartbeat()
            else:
                return

    parts = [asyncio.ensure_future(take_part(member)) for member in members]
    try:
        await asyncio.gather(*parts)
    finally:
        for part in parts:
            part.cancel()

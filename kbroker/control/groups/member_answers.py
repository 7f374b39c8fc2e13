"""Answers to the members of a classic group, encoded together: those of one phase differ in one
field near the end, and in the correlation id.

A rebalance answers all members in one turn of the loop, so the cost per member is what all of them
wait for.
"""

from collections.abc import Callable
from typing import Final

from kbroker.control.coordinator.machine import Deferred
from kbroker.control.groups.classic_group import ClassicGroup
from kbroker.control.groups.classic_member import ClassicMember
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import encode
from kbroker.protocol.compile_encode import write_uvarint
from kbroker.protocol.frame import flexible, framed_response
from kbroker.protocol.messages.join_group import JoinGroupResponse
from kbroker.protocol.messages.sync_group import SyncGroupResponse
from kbroker.protocol.schema import ProtocolError

NULL_PROTOCOL_FROM: Final = 7
"""JoinGroup version from which the answer's protocol name may be null."""
_ONE_BYTE: Final = tuple(bytes((length + 1,)) for length in range(127))


class FramedAnswer(Deferred):
    """A Deferred that can be completed with the frame of its answer, too.

    version, correlation_id: those of the request. send: sends the frame.
    """

    __slots__ = ("_send", "correlation_id", "version")

    def __init__(self, version: int, correlation_id: int, send: Callable[[bytes], object]) -> None:
        super().__init__()
        self.version = version
        self.correlation_id = correlation_id
        self._send = send

    def complete_framed(self, frame: bytes) -> bool:
        """Send the answer's frame; returns whether the request still waited."""
        if self.done:
            return False
        self.done = True
        self._send(frame)
        return True


class SharedAnswer:
    """An answer of which only one string or bytes field differs from member to member.

    response: makes the answer of a version with an empty field. The fields after it are empty
    arrays and tags, so their size depends only on whether the version is flexible.
    """

    __slots__ = ("_api", "_follows", "_length_bytes", "_parts", "_response")

    def __init__(self, api: ApiKey, response: Callable[[int], JoinGroupResponse | SyncGroupResponse]) -> None:
        self._api = api
        self._response = response
        self._parts: dict[int, tuple[bytes, bytes]] = {}
        joins = api is ApiKey.JOIN_GROUP
        self._length_bytes = 2 if joins else 4  # of a string, of bytes
        self._follows = (4, 2) if joins else (0, 1)  # no members, no tags

    def frame_for(self, waiting: FramedAnswer, field: bytes) -> bytes | None:
        """The frame of the answer to a request; None if its version cannot hold the response, as a
        text that is too long."""
        try:
            return self.frame(waiting.version, waiting.correlation_id, field)
        except ProtocolError:
            return None

    def frame(self, version: int, correlation_id: int, field: bytes) -> bytes:
        """The frame of the answer with the field. Raises ProtocolError."""
        parts = self._parts.get(version)
        before, after = self._encode(version) if parts is None else parts
        if not flexible(self._api, version):
            length = len(field).to_bytes(self._length_bytes)
        elif len(field) < len(_ONE_BYTE):
            length = _ONE_BYTE[len(field)]
        else:
            length = _compact(len(field))
        return framed_response(self._api, version, correlation_id, before + length + field + after)

    def _encode(self, version: int) -> tuple[bytes, bytes]:
        whole, compact = encode(self._response(version), version), flexible(self._api, version)
        end = len(whole) - self._follows[compact]
        start = end - (1 if compact else self._length_bytes)
        parts = self._parts[version] = whole[:start], whole[end:]
        return parts


def _compact(length: int) -> bytes:
    out = bytearray()
    write_uvarint(out, length + 1)
    return bytes(out)


class JoinAnswers:
    """The answers of a group's new generation to its members."""

    __slots__ = ("_group", "_shared")

    def __init__(self, group: ClassicGroup) -> None:
        self._group = group
        self._shared = SharedAnswer(ApiKey.JOIN_GROUP, self._response)

    def _response(self, version: int) -> JoinGroupResponse:
        return as_written(version, self._group.join_response(""))

    def give(self, member: ClassicMember) -> None:
        """Answer the JoinGroup that the member waits on, if any."""
        waiting, group = member.awaiting_join, self._group
        frame = None
        if type(waiting) is FramedAnswer and not group.is_leader(member.member_id):
            frame = self._shared.frame_for(waiting, member.member_id.encode())
        if type(waiting) is not FramedAnswer or frame is None:
            group.complete_join(member, group.join_response(member.member_id))
            return
        member.awaiting_join = None
        group.awaiting_join -= 1
        waiting.complete_framed(frame)


class SyncAnswers:
    """The answers of a group's stored assignment to its members."""

    __slots__ = ("_group", "_shared")

    def __init__(self, group: ClassicGroup) -> None:
        self._group = group
        self._shared = SharedAnswer(ApiKey.SYNC_GROUP, lambda _: sync_response(group, b""))

    def give(self, member: ClassicMember) -> bool:
        """Answer the SyncGroup that the member waits on; False if there is none."""
        waiting = member.awaiting_sync
        frame = self._shared.frame_for(waiting, member.assignment) if type(waiting) is FramedAnswer else None
        if type(waiting) is not FramedAnswer or frame is None:
            return self._group.complete_sync(member, sync_response(self._group, member.assignment))
        member.awaiting_sync = None
        return waiting.complete_framed(frame)


def as_written(version: int, response: JoinGroupResponse) -> JoinGroupResponse:
    """The response, as the version writes a missing protocol name."""
    nothing = None if version >= NULL_PROTOCOL_FROM else ""
    response.protocol_name = response.protocol_name or nothing
    return response


def sync_response(group: ClassicGroup, assignment: bytes) -> SyncGroupResponse:
    """The successful SyncGroup answer to a member of this generation."""
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=assignment
    )

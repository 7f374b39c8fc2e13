"""The fast path of JoinGroup and SyncGroup: requests of members in a running rebalance.

A rebalance of a classic group is two requests of each member, and nearly all of them only wait for
others, or get their part of a stored assignment. These are decided by the group itself, without the
runtime, the context and the chain of callbacks that other requests need, and the answers to all
members are encoded together (`control/groups/member_answers.py`). Every other request, and every
answer with an error, takes the ordinary path.
"""

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any, Final

from kbroker.api import join_group, sync_group
from kbroker.api.error_counts import ErrorCounts
from kbroker.control import failpoint
from kbroker.control.groups.member_answers import FramedAnswer, as_written
from kbroker.control.requests import ANSWERING, SLICED_FROM_BYTES
from kbroker.control.services import Services
from kbroker.ipc.block import client_request
from kbroker.ipc.link import AsyncLink
from kbroker.ipc.messages import ClientRequest
from kbroker.protocol.codec import decode
from kbroker.protocol.errors import KafkaError
from kbroker.protocol.frame import parse_request
from kbroker.protocol.long_frame import Frame
from kbroker.protocol.messages.join_group import JoinGroupRequest
from kbroker.protocol.messages.sync_group import SyncGroupRequest
from kbroker.protocol.schema import ProtocolError, Struct

FIRST_VERSIONS: Final[tuple[tuple[ModuleType, int], ...]] = ((join_group, 1), (sync_group, 0))
"""JoinGroup v0 has no rebalance timeout."""
NAMED_FROM: Final = sync_group.PROTOCOL_MANDATORY_FROM

Encoded = Callable[[ModuleType, ClientRequest, Struct, Struct], Frame | None]
"""The framed answer: of a module, a request's message, its response, and the request."""


class RebalanceRequests:
    """Runs in: control. Owner: its Dispatch, whose `encoded` encodes the answers with errors."""

    def __init__(self, services: Services, counts: ErrorCounts, encoded: Encoded) -> None:
        self._services = services
        self._counts = counts
        self._encoded = encoded

    def register(self) -> None:
        """Serve requests from now on."""
        servers = self._services.broker.listeners.request_servers
        for module, first in FIRST_VERSIONS:
            servers[int(module.API.key).to_bytes(2)] = partial(self._take, module, first)

    def _take(
        self, module: ModuleType, first: int, link: AsyncLink, call: int, peer: bytes, frame: bytes
    ) -> bool:
        """Serve a request if it is one of those; else False, and nothing has happened."""
        if len(frame) > SLICED_FROM_BYTES or self._services.broker.authorizer is not None:
            return False
        try:
            header, body = parse_request(frame)
            version = header.api_version
            if not first <= version <= module.API.max_version:
                return False
            request: Any = decode(module.API.request, version, frame, body)[0]
            answer = FramedAnswer(version, header.correlation_id, partial(self._send, module, link, call))
            answer.on_complete(partial(self._answer, module, link, call, peer, frame))
            if not _is_whole(request, version) or not self._services.groups.take_part(request, answer):
                return False
        except (ProtocolError, KafkaError):  # the ordinary path answers it
            return False
        return True

    def _send(self, module: ModuleType, link: AsyncLink, call: int, frame: bytes) -> None:
        """Send an answer without an error."""
        self._counts.count_none(module.API.key)
        self._reply(module, link, call, frame)

    def _answer(
        self, module: ModuleType, link: AsyncLink, call: int, peer: bytes, frame: bytes, response: Any
    ) -> None:
        """Send any other answer (the leader's, an error) as the ordinary path does."""
        client = client_request(peer, frame)
        request, _ = decode(module.API.request, client.api_version, client.body)
        if module is join_group:
            response = as_written(client.api_version, response)
        self._reply(module, link, call, self._encoded(module, client, response, request))

    def _reply(self, module: ModuleType, link: AsyncLink, call: int, frame: Frame | None) -> None:
        failpoint.reach(ANSWERING[module.API.key])
        link.reply(call, frame)


def _is_whole(request: JoinGroupRequest | SyncGroupRequest, version: int) -> bool:
    """Whether it names its protocol, where its version must."""
    if isinstance(request, JoinGroupRequest) or version < NAMED_FROM:
        return True
    return None not in (request.protocol_type, request.protocol_name)

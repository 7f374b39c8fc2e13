"""Requests that control serves, without Python: one block of requests is sent per turn, and blocks
of answers come back.

Runs in: network. Owner: the process. The kernel (`forward_kernel.py`) fills the block while there
is a link to control (`Context.FORWARDING`) and no quota is set (`Context.QUOTAS`). Every other
request goes through `dispatch.py`.
"""

from collections.abc import Callable, Mapping
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from kbroker.ipc.block import FAILED, Peer, pack_peer, row_of
from kbroker.ipc.link import AsyncLink
from kbroker.net.connections.answers import Answers
from kbroker.net.connections.connection import Connection, State
from kbroker.net.forward.forward_kernel import answer_forwarded
from kbroker.net.network_tables import NetworkTables, new_answer_table
from kbroker.net.rows import AnswerTable, Context, Flag, ForwardedApi, ProduceVersion
from kbroker.net.rows import Connection as ConnectionRow
from kbroker.net.usage.request_counts import RequestCounts
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.frame import flexible
from kbroker.protocol.long_frame import LongFrame

PLACE_BYTES: Final = 256
PLACES: Final = 1024
"""Places in a slab. Slabs are made when rows need them, and never move."""


class PackedPeers:
    """The packed peers of connections, where kernels read them. Runs in: network. Owner:
    Forwarding.

    A connection has a peer from its start, and may change it. Short peers share an array.
    """

    def __init__(self) -> None:
        self._slabs: dict[int, tuple[int, memoryview, NDArray[np.uint8]]] = {}

    def put(self, connection: Connection, packed: bytes) -> int:
        """Store the peer that the connection's requests begin with from now on; returns its
        address, which is valid until the next call for this connection or row."""
        size = len(packed)
        if size > PLACE_BYTES:
            connection.long_peer = np.frombuffer(packed, np.uint8)
            return int(connection.long_peer.ctypes.data)
        number, place = divmod(connection.row, PLACES)
        address, content, _ = self._slabs.get(number) or self._new_slab(number)
        start = place * PLACE_BYTES
        content[start : start + size] = packed
        return address + start

    def _new_slab(self, number: int) -> tuple[int, memoryview, NDArray[np.uint8]]:
        memory: NDArray[np.uint8] = np.zeros(PLACES * PLACE_BYTES, np.uint8)
        made = self._slabs[number] = int(memory.ctypes.data), memory.data, memory
        return made


LINK_BYTES: Final = 1 << 20
NEVER: Final = frozenset(
    (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
)
WATCHED: Final = frozenset((ApiKey.SHARE_FETCH, ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY))
"""APIs of which control is notified when a connection that has sent one closes."""
PRODUCE_VERSIONS: Final = (ProduceVersion.FIRST, ProduceVersion.LAST)
ANY_VERSION: Final = (-(1 << 15), (1 << 15) - 1)


def client_of(connection: Connection) -> Peer:
    """The client of a connection, as control gets it with each request."""
    accepted = connection.accepted
    return Peer(
        accepted.connection_id,
        connection.listener.listener,
        accepted.host,
        accepted.port,
        connection.principal,
        accepted.site,
        connection.software_name,
        connection.software_version,
        connection.token_authenticated,
    )


class Process(Protocol):
    """The methods of the process that are used here."""

    tables: NetworkTables
    connections: dict[int, Connection]
    counts: RequestCounts
    answers: Answers

    def close(self, connection: Connection, reason: str = "") -> None:
        """End a connection."""


class Forwarding:
    """One network process's requests at control.

    link: to control, None while there is none. serve(first, end): serves events of the kernel.
    request_turn: requests a turn.
    """

    def __init__(self, process: Process, serve: Callable[[int, int], None]) -> None:
        self.link: AsyncLink | None = None
        self.request_turn: Callable[[], None] = lambda: None
        self._connections = process.connections
        self._rest = process.counts.rest
        self._slow = process.counts.slow
        self._tables = process.tables
        self._words = process.tables.words
        self._serve = serve
        self._peers = PackedPeers()
        self._close = process.close
        self._to_clients = process.answers
        self._out: NDArray[np.uint8] = np.zeros(LINK_BYTES, np.uint8)
        self._forwarded: NDArray[np.int64] = ForwardedApi.table(ForwardedApi.APIS)
        self._forwarded[:, ForwardedApi.LOWEST] = 1
        self._serve_versions(0, ForwardedApi.APIS, ANY_VERSION)
        self._answers = bytearray()
        words = self._words
        words[Context.FORWARDED] = self._forwarded.ctypes.data
        words[Context.LINK_OUT] = self._out.ctypes.data
        words[Context.LINK_BYTES] = LINK_BYTES
        shared = process.tables.shared
        self._answer_tables = (
            new_answer_table(words, Context.ANSWERS, AnswerTable.MAX_ANSWERS),
            new_answer_table(words, Context.TOPIC_PARTS, AnswerTable.MAX_PARTS),
        )
        words[Context.CACHED_ANSWERS] = shared.cached_answers.ctypes.data
        words[Context.DIR_ERRORS] = shared.log_dir_errors.ctypes.data
        words[Context.DIR_COUNT] = len(shared.log_dir_errors)

    def serves(self, served: Mapping[int, tuple[int, int]]) -> None:
        """Set which APIs are served, and which may be forwarded: those that control serves."""
        self._serve_versions(0, ForwardedApi.APIS, (1, 0))
        for api, versions in served.items():
            self._serve_versions(api, api + 1, versions)
        self._serve_versions(
            ApiKey.PRODUCE, ApiKey.PRODUCE + 1, PRODUCE_VERSIONS
        )  # its announced versions begin at 0
        self._serve_versions(ApiKey.API_VERSIONS, ApiKey.API_VERSIONS + 1, ANY_VERSION)  # KIP-511
        for api, (lowest, highest) in served.items():
            if api in NEVER or api in WATCHED or not 0 <= api < ForwardedApi.APIS:
                continue
            first = next((v for v in range(lowest, highest + 1) if flexible(api, v)), highest + 1)
            self._forwarded[api, :3] = lowest, highest, first

    def _serve_versions(self, first: int, end: int, versions: tuple[int, int]) -> None:
        self._forwarded[first:end, ForwardedApi.SERVED_LOWEST] = versions[0]
        self._forwarded[first:end, ForwardedApi.SERVED_HIGHEST] = versions[1]

    def know(self, connection: Connection) -> None:
        """Called when the client may have been authenticated, or has named its software: from then
        on its requests are forwarded. Its peer is packed when the first of them comes."""
        if connection.state is not State.READY:
            return
        row, accepted = self._tables.connections[connection.row], connection.accepted
        row[ConnectionRow.ANSWER_SCOPE] = (
            connection.answer_scope << 16 | accepted.listener << 8 | accepted.site
        )
        if connection.answer_scope < 0:  # its answers may not be cached
            row[ConnectionRow.PEER] = 0
            row[ConnectionRow.FLAGS] &= ~Flag.PEER_DUE
        else:
            row[ConnectionRow.FLAGS] |= Flag.PEER_DUE

    def peer_due(self, number: int, *_: int) -> None:
        """Event: a request waits for the peer of its connection's row."""
        if (connection := self._connections.get(number)) is None:
            return
        packed = pack_peer(client_of(connection))
        address = self._peers.put(connection, packed)
        row = self._tables.connections[number]
        row[ConnectionRow.PEER] = address
        row[ConnectionRow.PEER_BYTES] = len(packed)
        row[ConnectionRow.FLAGS] &= ~Flag.PEER_DUE
        self._to_clients.clear_busy(number)

    def forget_answers(self) -> None:
        """Clear the cached answers."""
        for first, (_, index, _) in zip(
            (Context.ANSWERS, Context.TOPIC_PARTS), self._answer_tables, strict=True
        ):
            self._words[first + AnswerTable.COUNT] = self._words[first + AnswerTable.POOL_USED] = 0
            index[:] = 0

    def flush(self) -> None:
        """Send control the requests that the pump has queued."""
        used = int(self._words[Context.LINK_USED])
        self._words[Context.LINK_USED] = 0
        if self.link is not None:
            self.link.send_block(self._out[:used].tobytes())

    # --- answers --------------------------------------------------------------------------------------

    def take_answers(self, _: AsyncLink, block: bytearray) -> None:
        """Control has answered: send each answer, as many bytes as its socket takes."""
        self._answers = block
        if self._slow.on:
            self._slow.forwarded(block, self._connections)
        address = int(np.frombuffer(block, np.uint8).ctypes.data)
        position = 0
        while position < len(block):
            self._words[Context.EVENT_COUNT] = 0
            position = answer_forwarded(self._tables.address, address, position, len(block))
            self._serve(0, int(self._words[Context.EVENT_COUNT]))
        self._answers = bytearray()
        if self._words[Context.STALLED] >= 0:
            self.request_turn()

    def take_long_answer(self, call: int, answer: LongFrame) -> None:
        """Control has answered a request of a block with more bytes than a block may hold."""
        row = row_of(call)
        words = self._tables.connections[row]
        connection = self._connections.get(row)
        if connection is None or words[ConnectionRow.CALL] != call:
            return
        words[ConnectionRow.CALL] = 0
        if words[ConnectionRow.FLAGS] & Flag.CLOSING:
            return
        connection.api_key = int(words[ConnectionRow.API]) & 0xFFFF
        connection.api_version = int(words[ConnectionRow.API]) >> 16
        connection.request_bytes = int(words[ConnectionRow.REQUEST_BYTES])
        connection.began_ns = int(words[ConnectionRow.BEGAN_NS])
        connection.queued_ns = int(words[ConnectionRow.QUEUED_NS])
        self._to_clients.send(connection, answer.parts)

    def on_unsent(self, row: int, position: int, length: int, _: int) -> None:
        """Event: the socket did not take all of an answer. An earlier event of the same turn may
        have closed the connection."""
        connection = self._connections.get(row)
        if connection is None:
            return
        connection.unsent.append(bytes(self._answers[position : position + length]))
        connection.api_key = int(self._tables.connections[row, ConnectionRow.API]) & 0xFFFF
        self._rest(connection)
        self._to_clients.wait_sent(connection)

    def unanswered(self, row: int, status: int, api_key: int, _: int) -> None:
        """Event: control has no answer to a request. An earlier event of the same turn may have
        closed the connection."""
        connection = self._connections.get(row)
        if connection is not None:
            self._close(
                connection, "control failed" if status == FAILED else f"no answer to API key {api_key}"
            )

    def link_changed(self, link: AsyncLink | None) -> None:
        """Take a new link to control. None: control has ended, and requests that it has not
        answered get no answer."""
        self.link = link
        self._words[Context.FORWARDING] = link is not None
        if link is not None:
            return
        for row in np.flatnonzero(self._tables.connections[:, ConnectionRow.CALL]).tolist():
            self._close(self._connections[row], "control went away before it answered")

"""Requests of clients, forwarded by network processes: served at once or in time slices, and
answered.
"""

import asyncio
import logging
import time
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from kbroker.config.client_quotas import REQUEST_PERCENTAGE
from kbroker.config.principals import name_of
from kbroker.control import failpoint
from kbroker.control.broker import Broker
from kbroker.control.coordinator.machine import Deferred
from kbroker.control.listeners import RequestServer
from kbroker.ipc.background import Background
from kbroker.ipc.block import client_request, requests
from kbroker.ipc.link import AsyncLink
from kbroker.ipc.long_messages import give_back
from kbroker.ipc.messages import ClientRequest
from kbroker.ipc.sensors import NS_PER_PERCENT, Sensors, sensor_of
from kbroker.ipc.slicing import Slicing
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.long_frame import Frame
from kbroker.protocol.schema import ProtocolError

log = logging.getLogger(__name__)

Dispatch = Callable[[ClientRequest], Frame | Deferred | None]
"""The frame of the answer, None to close the connection; a Deferred may be of an exception."""
Block = tuple[AsyncLink, Mapping[bytes, RequestServer], Iterator[tuple[int, bytes, bytes]]]
"""The link that a block came from, the fast paths that may serve it, and its further requests."""
SLICED_FROM_BYTES = 1024
"""Minimum of a request's body: shorter requests name too little to take long, except LISTS."""
LISTS: Final = frozenset(
    (
        ApiKey.METADATA,
        ApiKey.OFFSET_FETCH,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.LIST_GROUPS,
        ApiKey.DESCRIBE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKey.DESCRIBE_PRODUCERS,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.LIST_TRANSACTIONS,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.LIST_CONFIG_RESOURCES,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ApiKey.SHARE_GROUP_DESCRIBE,
        ApiKey.STREAMS_GROUP_DESCRIBE,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        ApiKey.SHARE_GROUP_HEARTBEAT,
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        ApiKey.CREATE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.DELETE_TOPICS,
        ApiKey.DELETE_GROUPS,
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        ApiKey.ELECT_LEADERS,
    )
)
"""APIs whose short requests may take long: they list all items of a kind, return the assignment of
a group with many subscriptions, or change a topic or group with many partitions."""
NO_SERVERS: Final[dict[bytes, RequestServer]] = {}
BLOCKS_NS: Final = 4_000_000
"""Time for the requests of blocks in one turn of the loop. A block may have thousands of them: many
connections of one client."""
ANSWERING = defaultdict(lambda: "answering", {int(key): f"answering-{key}" for key in ApiKey})


class Requests:
    """Runs in: control. Owner: its main. dispatch: calls the handler of a request."""

    def __init__(self, broker: Broker, dispatch: Dispatch, background: Background) -> None:
        self._broker = broker
        self._dispatch = dispatch
        self._background = background
        self._slicing = Slicing()
        self._request_time = RequestTime(broker)
        self._full_slice = False  # whether a list took a whole slice in this turn of the loop
        self._blocks: deque[Block] = deque()
        self._continues = False  # whether the next turn of the loop serves them

    def take_block(self, link: AsyncLink, block: bytearray) -> None:
        """Serve the requests of a block, the rest of a long one in the next turns of the loop. They
        are of different connections: none waits for the answer of another."""
        servers = NO_SERVERS
        if not self._request_time.counts():
            servers = self._broker.listeners.request_servers
            for serve in self._broker.listeners.block_servers:
                if not serve(link, block):
                    return
        self._blocks.append((link, servers, requests(block)))
        if not self._continues:
            self._serve_blocks()

    def _serve_blocks(self) -> None:
        """Serve the next requests of blocks. Those of a process that has died are dropped: their
        clients may have sent a contrary request since."""
        self._continues = False
        ends_ns = time.monotonic_ns() + BLOCKS_NS
        while self._blocks:
            link, servers, block = self._blocks[0]
            for call, peer, frame in () if link.closed else block:
                self._serve_frame(link, servers, call, peer, frame)
                if time.monotonic_ns() >= ends_ns:
                    self._continues = True
                    asyncio.get_running_loop().call_soon(self._serve_blocks)
                    return
            self._blocks.popleft()

    def _serve_frame(
        self, link: AsyncLink, servers: Mapping[bytes, RequestServer], call: int, peer: bytes, frame: bytes
    ) -> None:
        """Serve one request; a bug closes its connection, and the others of the block are
        served."""
        fast = servers.get(frame[:2])
        try:
            if fast is None or not fast(link, call, peer, frame):
                self.serve(link, call, client_request(peer, frame))
        except ProtocolError as error:
            log.warning("a request that cannot be read: %s; closed", error)
            link.reply(call, None)
        except Exception:
            log.exception("a request failed; closed")
            link.reply(call, None)

    def serve(self, link: AsyncLink, call_id: int, client: ClientRequest) -> None:
        """Answer a request, now or when its Deferred is complete."""
        if len(client.body) > SLICED_FROM_BYTES or client.api_key in self._broker.listeners.sliced_apis:
            spent = partial(self._spent, client)
            work = self._slicing.run(partial(self._dispatch, client), spent, len(client.body))
            self._background.start(self._serve_in_slices(link, call_id, client, work))
            return
        if client.api_key in LISTS:
            self._serve_list(link, call_id, client)
            return
        began_ns = time.monotonic_ns() if self._request_time.counts() else 0
        answer: Frame | Deferred | Exception | None
        try:
            answer = self._dispatch(client)
        except Exception as error:
            answer = error
        if began_ns:
            self._request_time.spent(client, began_ns)
        _reply(link, call_id, client, answer)

    def in_slices(self, work: Callable[[], object]) -> None:
        """Run long work that no client has requested, between the long requests."""
        self._background.start(self._slicing.run(work))

    def _serve_list(self, link: AsyncLink, call_id: int, client: ClientRequest) -> None:
        """As `serve`; when the answer takes longer than one slice, the others follow. One list in a
        turn of the loop may take a slice at once: a block may have many of them."""
        spent = partial(self._spent, client)
        if self._full_slice:
            whole = self._slicing.run(partial(self._dispatch, client), spent, len(client.body))
            self._background.start(self._serve_in_slices(link, call_id, client, whole))
            return
        answer: Frame | Deferred | Exception | None
        try:
            work, answer = self._slicing.begin(partial(self._dispatch, client), spent)
        except Exception as error:
            answer = error
        else:
            if not work.done:
                self._full_slice = True
                asyncio.get_running_loop().call_soon(self._turn_ended)
                rest = self._slicing.finish(work, spent)
                self._background.start(self._serve_in_slices(link, call_id, client, rest))
                return
        _reply(link, call_id, client, answer)

    def _turn_ended(self) -> None:
        self._full_slice = False

    async def _serve_in_slices(
        self, link: AsyncLink, call_id: int, client: ClientRequest, work: Awaitable[Any]
    ) -> None:
        """As `serve`, in time slices: the answer may be long, and so may be the request."""
        try:
            answer = await work
        except Exception as error:
            answer = error
        _reply(link, call_id, client, answer)
        await give_back(client.body)

    def _spent(self, client: ClientRequest, nanoseconds: int) -> None:
        if self._request_time.counts():
            self._request_time.spent(client, time.monotonic_ns() - nanoseconds)


def _reply(
    link: AsyncLink, call_id: int, client: ClientRequest, answer: Frame | Deferred | Exception | None
) -> None:
    """Reply with the answer when it is complete; an unexpected exception closes the connection."""
    if isinstance(answer, Deferred):
        answer.on_complete(partial(_reply, link, call_id, client))
        return
    if isinstance(answer, Exception):
        log.error("API %d version %d failed", client.api_key, client.api_version, exc_info=answer)
    frame = None if isinstance(answer, Exception) else answer
    failpoint.reach(ANSWERING[client.api_key])
    link.reply(call_id, frame)


class RequestTime:
    """The time that control spends on requests of clients with a request_percentage quota
    (KIP-124).

    Runs in: control. Owner: Requests. The network process that sends the answer checks the
    quota."""

    def __init__(self, broker: Broker) -> None:
        window_ms = broker.config.get_int("quota.window.size.seconds") * 1000
        self._broker = broker
        self._sensors = Sensors(broker.shared, broker.shared.control_client, window_ms)

    def counts(self) -> bool:
        """Whether any such quota is set."""
        return REQUEST_PERCENTAGE in self._broker.quotas.present

    def spent(self, client: ClientRequest, began_ns: int) -> None:
        """Count the time of a request that is answered, or that waits now."""
        user = name_of(client.principal)
        bound = self._broker.quotas.bound(REQUEST_PERCENTAGE, user, client.client_id or "")
        sensor = sensor_of(REQUEST_PERCENTAGE, bound, NS_PER_PERCENT)
        if sensor is not None:
            now_ns = time.monotonic_ns()
            self._sensors.add(sensor, now_ns - began_ns, now_ns // 1_000_000)

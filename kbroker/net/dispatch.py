"""Dispatch of requests that the kernel left to Python: they are answered here, or control answers
them.

Runs in: network. Owner: the process. A request that is not served closes the connection, as in
Kafka.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from kbroker.config.acls import WRITE
from kbroker.ipc.background import Background
from kbroker.ipc.block import whole_request
from kbroker.ipc.clock import monotonic_ms
from kbroker.ipc.messages import ClientRequest, Reply
from kbroker.ipc.slicing import Slicing
from kbroker.log.open_files import OpenFile
from kbroker.net.api_versions import KnownRequest, VersionAnswers, is_api_versions
from kbroker.net.connections.connection import Connection, State
from kbroker.net.fetch.fetches import Fetches
from kbroker.net.fetch.waiting_fetches import WaitingFetches
from kbroker.net.forward.control_link import ControlLink
from kbroker.net.forward.forwarding import WATCHED, client_of
from kbroker.net.local_answers.known_versions import KnownVersions
from kbroker.net.process import NetworkProcess
from kbroker.net.produce.oversized import refuse
from kbroker.net.rate_limited_log import not_served
from kbroker.net.receive_kernel import MAX_FETCH
from kbroker.net.security.logins import Logins
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.frame import RequestHeader, parse_request
from kbroker.protocol.long_frame import Frame, LongFrame, TooLarge
from kbroker.protocol.schema import ProtocolError

log = logging.getLogger(__name__)

Versions = Mapping[int, tuple[int, int]]  # API key -> (lowest, highest) version that is answered

CONTROL_RETRY_SECONDS = 0.05
CONTROL_PATIENCE = 60  # retries: clients do not notice a restart of control


class Dispatch:
    """version_answers: answers ApiVersions, if control does not. Other requests than Produce and
    Fetch go to control as they are."""

    def __init__(
        self,
        process: NetworkProcess,
        control: ControlLink,
        fetches: Fetches,
        version_answers: VersionAnswers | None,
        served: Versions,
    ) -> None:
        self._process = process
        self._control = control
        self.fetches = fetches
        self.waiting = WaitingFetches(process.tables, fetches.purgatory, self.take, process.kernel_answered)
        self.logins = Logins(process, control)
        self._version_answers = version_answers
        self.known_versions = KnownVersions(process.tables)
        self._served = served
        self._slicing = Slicing()
        self._long = Background(log, "a long request failed")
        fetches.in_slices = self.in_slices

    def take(self, connection: Connection, frame: bytes) -> None:
        """Serve one request: a frame without its size. Its connection reads no further request
        until this one is answered."""
        if is_api_versions(frame) and self._answer_api_versions(connection, frame):
            return
        try:
            if (begun := self._begin(connection, frame)) is None:
                return
            header, body = begun
            if header.api_key == ApiKey.FETCH and len(frame) > MAX_FETCH:
                self.in_slices(connection, partial(self.fetches.take, connection, header, frame, body))
            elif header.api_key == ApiKey.FETCH:
                self.fetches.take(connection, header, frame, body)
            elif header.api_key == ApiKey.PRODUCE:
                self.in_slices(connection, partial(self._refuse_produce, connection, header, frame, body))
            else:
                self._forward(connection, _client_request(connection, header, frame[body:]), frame)
        except ProtocolError as error:
            self._process.refuse(connection, str(error))

    def _answer_api_versions(self, connection: Connection, frame: bytes) -> bool:
        """Answer a request for ApiVersions that is known, byte by byte; the kernel answers the next
        one like it."""
        process = self._process
        if self._version_answers is None or connection.login is not None or process.quotas.active:
            return False
        known = self._version_answers.known(frame)
        if known is None:
            return False
        self.known_versions.add(frame, known)
        connection.api_key = ApiKey.API_VERSIONS
        process.counts.begun(connection, known.version, len(frame))
        self._introduced(connection, known)
        process.answers.send(connection, [known.answer_to(frame)])
        return True

    def introduced(self, connection: Connection, number: int) -> None:
        """The kernel has answered a known request for ApiVersions."""
        self._introduced(connection, self.known_versions.at(number))

    def _introduced(self, connection: Connection, known: KnownRequest) -> None:
        self._process.counts.clients.named(connection, known.client_id)
        if known.software_name:
            self._learn(connection, known.software_name, known.software_version)

    def _begin(self, connection: Connection, frame: bytes | memoryview) -> tuple[RequestHeader, int] | None:
        """The header and where the body starts; None for a request that is already answered
        or refused. Raises ProtocolError."""
        if connection.login is not None and self.logins.takes(connection, frame):
            return None
        header, body = parse_request(frame)
        connection.api_key = header.api_key
        if self._process.quotas.active:
            self._process.quotas.client_known(connection, header.client_id)
        self._process.counts.clients.named(connection, header.client_id)
        self._process.counts.begun(connection, header.api_version, len(frame))
        if not self._serves(header):
            self._process.refuse(connection, not_served(header.api_key, header.api_version))
            return None
        return header, body

    def take_long(self, connection: Connection, frame: memoryview, release: Callable[[], None]) -> None:
        """As `take`, of a long frame that stays in the arena until `release` is called."""
        self._long.start(self._taken_long(connection, frame, release))

    async def _taken_long(
        self, connection: Connection, frame: memoryview, release: Callable[[], None]
    ) -> None:
        try:
            if not connection.is_closed():
                await self._guarded(connection, self._serve_long(connection, frame))
        finally:
            release()

    async def _serve_long(self, connection: Connection, frame: memoryview) -> None:
        if (begun := self._begin(connection, frame)) is None:
            return
        header, body = begun
        if header.api_key == ApiKey.FETCH:
            take = partial(self.fetches.take, connection, header, frame, body)
            await self._slicing.run(take, size=len(frame))
        elif header.api_key == ApiKey.PRODUCE:
            refuse_it = partial(self._refuse_produce, connection, header, frame, body)
            await self._slicing.run(refuse_it, size=len(frame))
        elif header.api_key == ApiKey.API_VERSIONS and self._version_answers is not None:
            request = _client_request(connection, header, frame[body:])
            await self._slicing.run(partial(self._forward, connection, request, frame), size=len(frame))
        else:
            await self._forward_long(connection, _client_request(connection, header, b""), frame[body:])

    async def _forward_long(self, connection: Connection, request: ClientRequest, body: memoryview) -> None:
        for _ in range(CONTROL_PATIENCE):
            if self._control.connected:
                break
            await asyncio.sleep(CONTROL_RETRY_SECONDS)
        if connection.is_closed():
            return
        watched = request.api_key in WATCHED
        if watched:
            connection.on_gone = partial(self._control.report_closed, request.connection_id)
        await self._control.request_long(request, body, partial(self._control_answered, connection))
        if watched and connection.is_closed():  # control was notified of the close before the request
            self._control.report_closed(request.connection_id)

    def in_slices(self, connection: Connection, work: Callable[[], None]) -> None:
        """Do long work for a client, in turns with the work of other clients."""
        self._long.start(self._guarded(connection, self._slicing.run(work)))

    async def _guarded(self, connection: Connection, work: Awaitable[None]) -> None:
        """A bug in the service of one client closes the connection of that client only."""
        try:
            await work
        except (ProtocolError, TooLarge) as error:
            self._process.refuse(connection, str(error))
        except Exception:
            log.exception("a long request failed")
            self._process.close(connection, "internal error")

    def _refuse_produce(
        self, connection: Connection, header: RequestHeader, frame: bytes | memoryview, body: int
    ) -> None:
        process = self._process
        may = partial(process.access.may, connection, WRITE)
        may_use_id = partial(process.access.may_use_id, connection)
        answer = refuse(process.topics, may, may_use_id, header, frame, body)
        if answer is None:
            process.close(connection, "a Produce with acks=0 and too many partitions")
        else:
            self._answered(connection, answer)

    def wait(self, connection: Connection, frame: bytes) -> None:
        """A fetch that the kernel answers when there are enough bytes."""
        connection.api_key = ApiKey.FETCH
        self.waiting.take(connection, frame, monotonic_ms())
        self.fetches.purgatory.set_timer()

    def on_advanced(self, slot: int) -> None:
        """A slot that a fetch waits for has advanced."""
        self.fetches.purgatory.on_advanced(slot)

    def source(self, fd: int) -> OpenFile:
        """The open file of a descriptor that a kernel has used in this turn."""
        return self.fetches.reads.source(fd)

    def divide_descriptors(self) -> None:
        """Close cached files if more connections need their descriptors."""
        self.fetches.divide_descriptors()

    def on_read_ahead(self, token: int) -> None:
        """A cold range is in the page cache now."""
        self.fetches.cold.on_read(token)

    def _serves(self, header: RequestHeader) -> bool:
        if header.api_key == ApiKey.API_VERSIONS:
            return True  # its handler answers unknown versions, too (KIP-511)
        lowest, highest = self._served.get(header.api_key, (1, 0))
        return lowest <= header.api_version <= highest

    def _forward(self, connection: Connection, request: ClientRequest, frame: bytes | memoryview) -> None:
        if request.api_key == ApiKey.API_VERSIONS and self._version_answers is not None:
            self._answered(
                connection, self._version_answers.answer(request, frame, partial(self._learn, connection))
            )
            return
        if request.api_key in WATCHED:
            connection.on_gone = partial(self._control.report_closed, request.connection_id)
        self._ask_control(connection, request, CONTROL_PATIENCE)

    def _learn(self, connection: Connection, name: str, version: str) -> None:
        """The client has named its software: control gets that with its requests."""
        if (name, version) == (connection.software_name, connection.software_version):
            return
        self._process.counts.clients.learned(connection, name, version)
        self._process.forwarding.know(connection)

    def _ask_control(self, connection: Connection, request: ClientRequest, patience: int) -> None:
        if connection.state is State.CLOSED:
            return
        if not self._control.connected:
            if patience <= 0:
                self._process.close(connection, "control is not there")
                return
            loop = asyncio.get_running_loop()
            loop.call_later(CONTROL_RETRY_SECONDS, self._ask_control, connection, request, patience - 1)
            return
        self._control.request(request, partial(self._control_answered, connection))

    def _control_answered(self, connection: Connection, reply: Reply | None) -> None:
        if reply is None:
            self._process.close(connection, "control went away before it answered")
        elif reply.error:
            log.error("control could not serve API key %d: %s", connection.api_key, reply.message)
            self._process.close(connection, "control failed")
        else:
            self._answered(connection, reply.value)

    def _answered(self, connection: Connection, answer: Frame | None) -> None:
        if answer is None:
            self._process.close(connection, f"no answer to API key {connection.api_key}")
        elif isinstance(answer, LongFrame):
            self._process.answers.send(connection, answer.parts)
        else:
            if connection.state is State.AUTHENTICATING:
                self.logins.reported_versions(connection, answer)
            self._process.answers.send(connection, [answer] if answer else [])


def _client_request(connection: Connection, header: RequestHeader, body: bytes | memoryview) -> ClientRequest:
    # the body is a memoryview while the request is in the arena
    return whole_request(client_of(connection), header, body)  # type: ignore[arg-type]

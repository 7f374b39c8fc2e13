"""The network process's link to control: hello, topic images, client requests. A new link is opened
when control restarts.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

from kbroker.ipc.client_messages import ClientReport, ConnectedClients, ConnectedQuery
from kbroker.ipc.connecting import connect
from kbroker.ipc.link import Answered, AsyncLink, LinkClosed
from kbroker.ipc.login_messages import (
    AttemptLogin,
    FindScramCredential,
    FindTokenCredential,
    LoginSucceeded,
    LoginTurn,
    TokenCredential,
)
from kbroker.ipc.messages import (
    AuditEvents,
    ClientRequest,
    ConnectionClosed,
    Hello,
    Image,
    ScramCredential,
    VerifyTransaction,
)
from kbroker.protocol.long_frame import LongFrame

RETRY_SECONDS = 0.02
log = logging.getLogger(__name__)


class ControlLink:
    """Runs in: network. Owner: the process's main.

    on_image(image, applied): make it visible to every later request, then call `applied`, which
    answers control. on_answers(link, block): answers to requests that left in blocks.
    on_change(link): called with each new link, and with None when it is lost.
    """

    def __init__(
        self,
        connector: socket.socket,
        hello: Hello,
        on_image: Callable[[Image, Callable[[], None]], None],
        on_answers: Callable[[AsyncLink, bytearray], None],
        on_change: Callable[[AsyncLink | None], None],
    ) -> None:
        self._connector = connector
        self._hello = hello
        self._on_image = on_image
        self._on_answers = on_answers
        self._on_change = on_change
        self._link: AsyncLink | None = None
        self._closed = False
        self._tasks: set[asyncio.Task[None]] = set()
        self.on_long_answer: Callable[[int, LongFrame], None] = lambda *_: None
        """Called with the call and the answer of a request that left in a block, if the answer is
        long."""
        self.list_clients: Callable[[], Awaitable[ConnectedClients]] = _no_clients
        """Returns the clients of this process."""
        self.first_image = asyncio.Event()

    async def connect(self) -> None:
        """Connect and send Hello; tries again until it succeeds."""
        loop = asyncio.get_running_loop()
        while not self._closed:
            link = AsyncLink(self._on_message, self._on_lost, self._on_answers, of_requests=False)
            try:
                end = connect(self._connector)
                end.setblocking(False)
                await loop.create_connection(partial(_same, link), sock=end)
            except OSError:
                await asyncio.sleep(RETRY_SECONDS)
                continue
            self._link = link
            link.on_long_answer = self.on_long_answer
            link.send(self._hello)
            self._on_change(link)
            return

    def _on_message(self, link: AsyncLink, call_id: int, body: Any) -> None:
        if isinstance(body, Image):
            self._on_image(body, partial(self._applied, link, call_id, body.full))
        elif isinstance(body, ConnectedQuery):
            self._start(self._reply_clients(link, call_id))
        else:
            log.error("control sent an unknown message: %s", type(body).__name__)

    def _applied(self, link: AsyncLink, call_id: int, full: bool) -> None:
        link.reply(call_id)
        if full:
            self.first_image.set()

    def _on_lost(self, link: AsyncLink) -> None:
        if link is not self._link:
            return
        self._link = None
        self._on_change(None)
        if not self._closed:
            log.warning("lost the link to control, reconnecting")
            self._start(self.connect())

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _reply_clients(self, link: AsyncLink, call_id: int) -> None:
        link.reply(call_id, await self.list_clients())

    @property
    def connected(self) -> bool:
        """Whether a request would reach control."""
        return self._link is not None and not self._link.closed

    def request(self, request: ClientRequest, answered: Answered) -> None:
        """Send a request; `answered` gets control's framed answer: a Reply, whose value is None to
        close the connection, or None when control goes away before it answers."""
        if self._link is None:
            answered(None)
        else:
            self._link.ask(request, answered)

    async def request_long(self, request: ClientRequest, body: memoryview, answered: Answered) -> None:
        """As `request`, of a request without its body, which crosses in pieces. Returns when the
        body is no longer needed."""
        if self._link is None:
            answered(None)
            return
        sent = asyncio.Event()
        self._link.ask_long(request, body, answered, sent.set)
        await sent.wait()

    def send(self, message: AuditEvents | LoginSucceeded | ClientReport) -> None:
        """A message without an answer; it is lost while there is no link to control."""
        if self._link is not None:
            self._link.send(message)

    def report_closed(self, connection_id: int) -> None:
        """Report to control that a connection is closed. After a restart control does not know the
        connection."""
        if self._link is not None:
            self._link.send(ConnectionClosed(connection_id))

    async def _call(self, message: Any) -> Any:
        if self._link is None:
            raise LinkClosed("control is not there")
        return await self._link.call(message)

    async def verify(self, message: VerifyTransaction) -> tuple[tuple[int, str | None], ...]:
        """Control's consent to transactional batches. Raises LinkClosed, KafkaError."""
        answers: tuple[tuple[int, str | None], ...] = await self._call(message)
        return answers

    async def attempt_login(self, message: AttemptLogin) -> LoginTurn:
        """Request a turn to check a password. Raises LinkClosed."""
        found: LoginTurn = await self._call(message)
        return found

    async def find_credential(self, message: FindScramCredential) -> ScramCredential:
        """A user's credential. Raises LinkClosed."""
        found: ScramCredential = await self._call(message)
        return found

    async def find_token(self, message: FindTokenCredential) -> TokenCredential:
        """The credential by which a login by delegation token is checked. Raises LinkClosed."""
        found: TokenCredential = await self._call(message)
        return found

    def close(self) -> None:
        """Close the link; it is not opened again."""
        self._closed = True
        if self._link is not None:
            self._link.close()


async def _no_clients() -> ConnectedClients:
    return ConnectedClients()


def _same(link: AsyncLink) -> AsyncLink:
    return link

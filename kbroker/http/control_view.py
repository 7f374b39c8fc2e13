"""The http process's link to control: receives topic changes, and requests groups."""

import logging
import select
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NoAnswerInTime
from typing import Any, Generic, TypeVar

from msgspec import Struct, field

from kbroker.http.directory import Directory, applied
from kbroker.ipc.client_messages import ConnectedClients, ConnectedQuery
from kbroker.ipc.http_messages import ClientMetrics, ClientsQuery, GroupsPage, GroupsQuery, GroupSummary
from kbroker.ipc.link import LinkClosed
from kbroker.ipc.messages import Hello, Image, Reply, TopicImage
from kbroker.ipc.polled_link import PolledLink
from kbroker.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

CLOSED_POLL_MS = 500

RETRY_S = 0.05
ANSWER_S = 5.0
ANSWER_AGE_S = 1.0
INFORMED_S = 2.0
"""The time for which the first request and the first sample wait for control's list of topics;
without it, nothing is ready."""
T = TypeVar("T")


class NoAnswer(Exception):
    """Control is restarting, or does not answer in time."""


class KeptAnswer(Struct, Generic[T]):
    """The cached answer to an expensive query of control."""

    query: Any
    value: T
    at_s: float = float("-inf")
    lock: threading.Lock = field(default_factory=threading.Lock)


class ControlView:
    """Runs in: http; a separate thread reads the link. Owner: the process's main."""

    def __init__(
        self, connector: socket.socket, hello: Hello, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._connector = connector
        self._hello = hello
        self._clock_s = clock_s
        self._topics: dict[str, TopicImage] = {}
        self._link: PolledLink | None = None
        self._calls: dict[int, Future[Any]] = {}
        self._pages: dict[int, list[GroupSummary]] = {}
        self._next_call = 1
        self._lock = threading.Lock()
        self._groups = KeptAnswer[tuple[GroupSummary, ...]](GroupsQuery(), ())
        self._clients = KeptAnswer(ClientsQuery(), ClientMetrics(0, 0, ()))
        self._connected = KeptAnswer(ConnectedQuery(), ConnectedClients())
        self._closed = False
        self.directory = Directory()
        self.informed = threading.Event()
        """Set while the directory is control's: from the first full image on a link to the link's
        end."""

    def start(self) -> None:
        """Connect, and connect again whenever control restarts."""
        threading.Thread(target=self._run, name="control-view", daemon=True).start()

    def groups(self) -> tuple[GroupSummary, ...]:
        """All groups, at most a second old; the last known ones while control is restarting."""
        return self._checked(self._groups)

    def clients(self) -> ClientMetrics:
        """The metrics that clients have pushed, at most a second old; the last known ones while
        control is restarting."""
        return self._checked(self._clients)

    def connected(self) -> ConnectedClients:
        """The connected clients, at most a second old; the last known ones while control is
        restarting."""
        return self._checked(self._connected)

    def _checked(self, kept: "KeptAnswer[T]") -> T:
        with kept.lock:
            if self._clock_s() - kept.at_s < ANSWER_AGE_S:
                return kept.value
            try:
                kept.value = self.ask(kept.query)
            except NoAnswer as error:
                log.debug("%s", error)
            kept.at_s = self._clock_s()
            return kept.value

    def ask(self, message: Any) -> Any:
        """Call control. Raises NoAnswer."""
        try:
            return self._call(message)
        except (LinkClosed, KafkaError, NoAnswerInTime) as error:
            raise NoAnswer(f"control did not answer {type(message).__name__}: {error}") from error

    def close(self) -> None:
        """End the thread with its link."""
        self._closed = True
        with self._lock:
            if self._link is not None:
                self._link.close()

    def _call(self, body: Any) -> Any:
        with self._lock:
            if self._link is None:
                raise LinkClosed("control is restarting")
            future: Future[Any] = Future()
            call_id, self._next_call = self._next_call, self._next_call + 1
            self._calls[call_id] = future
            self._link.send(body, call_id)
        return future.result(ANSWER_S)

    def _run(self) -> None:
        while not self._closed:
            try:
                link = PolledLink(self._connector)
                link.send(self._hello)
            except OSError:
                time.sleep(RETRY_S)
                continue
            with self._lock:
                self._link = link
            try:
                self._read(link)
            except (LinkClosed, OSError, ValueError) as error:  # ValueError: closed before it was watched
                log.debug("the link to control ended: %s", error)
            self._lost(link)

    def _read(self, link: PolledLink) -> None:
        readable = select.poll()
        readable.register(link, select.POLLIN)
        while True:
            readable.poll(CLOSED_POLL_MS)  # a link that is closed meanwhile does not end the wait
            for call_id, body in link.receive():
                if isinstance(body, Image):
                    self._topics = applied(self._topics, body)
                    self.directory = Directory.of(self._topics)
                    if body.full:
                        self.informed.set()
                    link.reply(call_id)
                elif isinstance(body, GroupsPage):
                    self._pages.setdefault(body.call_id, []).extend(body.groups)
                elif isinstance(body, Reply):
                    self._settle(body)
                else:
                    log.error("control sent an unknown message: %s", type(body).__name__)

    def _settle(self, reply: Reply) -> None:
        with self._lock:
            future = self._calls.pop(reply.call_id, None)
        pages = self._pages.pop(reply.call_id, [])
        if future is None:
            return
        if reply.error:
            future.set_exception(KafkaError(ErrorCode(reply.error), reply.message))
        else:
            future.set_result((*pages, *reply.value) if pages else reply.value)

    def _lost(self, link: PolledLink) -> None:
        self.informed.clear()
        with self._lock:
            self._link = None
            calls, self._calls = self._calls, {}
        self._pages.clear()
        for future in calls.values():
            future.set_exception(LinkClosed("control went away"))
        link.close()

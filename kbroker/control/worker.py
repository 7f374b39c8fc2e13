"""The control process: builds its state, serves links, runs coordinators, and reports when it is
ready.

Runs in: control. One uvloop; disks are touched on threads only (store, log reader) once the loop
runs.
"""

import asyncio
import logging
import socket
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import uvloop

from kbroker.control import state
from kbroker.control.audit.log import AuditLog
from kbroker.control.broker import Broker
from kbroker.control.changes.log_closings import retry_refused
from kbroker.control.changes.token_change import keep_removing_expired
from kbroker.control.clients.connected import connected_clients
from kbroker.control.coordinator.runtime import Runtime
from kbroker.control.groups.summary import send_summaries
from kbroker.control.images import full_image
from kbroker.control.io_workers import LATE_S, IoWorkers, forward_call
from kbroker.control.late_openings import keep_opening
from kbroker.control.links.appender import Appender
from kbroker.control.logins import MESSAGES, Logins
from kbroker.control.metadata.catalogue import Topic
from kbroker.control.metadata.endpoint import advertised_endpoints, site_endpoints
from kbroker.control.replication.reassignment import finish_all
from kbroker.control.requests import Dispatch, Requests
from kbroker.control.services import Services
from kbroker.control.store.store import StoreError
from kbroker.control.transactions.verification import verify
from kbroker.ipc.background import Background, unless_stopped
from kbroker.ipc.child import EXIT_CANNOT_START, STOP_SIGNAL, ChildContext, take_stop
from kbroker.ipc.cleaning_messages import AskWorker, BrokerSettings
from kbroker.ipc.client_messages import ClientReport, ConnectedQuery
from kbroker.ipc.connecting import accept, is_abandoned
from kbroker.ipc.http_messages import ClientsQuery, GroupsQuery
from kbroker.ipc.layout import ProcessLine
from kbroker.ipc.link import AsyncLink, LinkClosed
from kbroker.ipc.messages import ClientRequest, ConnectionClosed, Hello, VerifyTransaction
from kbroker.ipc.move_messages import MoveCaughtUp, MoveFailed
from kbroker.log import boot_mark
from kbroker.metrics.slots import bind

log = logging.getLogger(__name__)

Handler = Callable[[AsyncLink, int, Any], object]
"""Handles a message: link, call id, message."""
Coordinators = Callable[[Services, Appender], Sequence[Runtime]]
"""Creates the coordinators and adds them to the services."""

HEARTBEAT_S = 0.5
MAX_LINKS_A_TURN = 16
LOOP_LAG = bind("kbroker_loop_lag_seconds")
OPEN_GRACE_S = 0.5
"""Maximum time that a start waits for logs that are not internal: most open in milliseconds, so
that clients find them open right after the start."""


class Control:
    """Serves one broker's links until the parent asks for a stop. Owner: `main`."""

    def __init__(
        self,
        context: ChildContext,
        broker: Broker,
        dispatch: Callable[[Services], Dispatch],
        coordinators: Coordinators,
    ) -> None:
        self._context = context
        self._broker = broker
        self._services = Services(broker, AuditLog.of(context.config, broker.metrics))
        self._appender = Appender(context.shared, context.epoch)
        self._make_coordinators = coordinators
        self._runtimes: Sequence[Runtime] = ()
        self._links: set[AsyncLink] = set()
        self._background = Background(log, "a task of control failed")
        self._requests = Requests(broker, dispatch(self._services), self._background)
        self._line = context.shared.processes[context.process]
        self._stop = asyncio.Event()
        self._replication = self._services.replication
        self._workers = IoWorkers(
            broker,
            self._services.moves,
            self._appender,
            context.shared.sizes.workers,
            self._worker_is_back,
            lambda: self._background.start(self._load()),
        )
        self._replication.after_check.append(partial(finish_all, self._replication))
        broker.listeners.leaders.append(self._appender.leaders_changed)
        self._logins = Logins(broker, self._services.audit)
        self._audit = self._services.audit
        self._handlers = self._message_handlers()

    async def run(self) -> None:
        """Serve until the parent asks for a stop."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(STOP_SIGNAL, self._stop.set)
        take_stop()
        self._heartbeat(loop)
        await self._appender.start()
        listener = self._context.control_sockets.listener
        loop.add_reader(listener, self._take_links, listener)
        self._runtimes = self._make_coordinators(self._services, self._appender)
        self._broker.listeners.partitions.append(self._has_new_partitions)
        await unless_stopped(self._stop, self._open_and_load())
        self._background.start(self._broker.stores.keep_checking())
        self._background.start(keep_opening(self._broker, self._load))
        self._background.start(keep_removing_expired(self._broker))
        retry_refused(self._broker)
        self._background.start(self._once_all_are_open())
        if not self._stop.is_set():
            self._line[ProcessLine.READY] = self._context.epoch
            log.info("control is ready")
            self._background.start(self._broker.stores.reserve())
            await self._stop.wait()
        loop.remove_reader(listener)
        for runtime in self._runtimes:
            runtime.close()
        for link in list(self._links):
            link.close()
        self._appender.stop()
        self._broker.close()
        if self._audit is not None:
            self._audit.close()

    async def _open_and_load(self) -> None:
        """Wait until internal topics are open and replayed: those of an IO worker as soon as they
        are open, and not for one that hangs. Other logs may still be checked after a kill: each one
        is served as soon as it is open. With replica sites it waits for all logs, because their
        roles depend on their contents."""
        await self._workers.internal_logs()
        if len(self._broker.nodes.sites) > 1:
            await self._workers.all_open.wait()
        await self._load()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._workers.all_open.wait(), OPEN_GRACE_S)

    async def _once_all_are_open(self) -> None:
        await self._workers.all_open.wait()
        self._line[ProcessLine.LOGS_OPEN] = self._context.epoch
        self._background.start(self._mark_checked_dirs())
        if len(self._broker.nodes.sites) > 1:
            await self._replication.run()

    async def _mark_checked_dirs(self) -> None:
        """A kill -9 from now on loses nothing of these log dirs, as long as the kernel runs."""
        for log_dir in set(self._broker.online_dirs) - self._workers.unchecked:
            try:
                await asyncio.to_thread(boot_mark.write, log_dir)
            except OSError as error:
                log.warning("%s cannot be marked as checked: %s", log_dir, error)

    async def _worker_is_back(self, worker: int) -> None:
        """All logs of a restarted IO worker are open."""
        await self._replication.worker_returned(worker)
        await self._load()  # the partitions that its predecessor died with

    async def _load(self) -> None:
        """Replay the partitions of internal topics that have not been replayed. A hanging disk is
        not waited for."""
        await asyncio.gather(*(runtime.load(LATE_S) for runtime in self._runtimes))

    def _has_new_partitions(self, topic: Topic) -> None:
        """An internal topic was created or has new partitions: load them before a client uses
        them."""
        for runtime in self._runtimes:
            if runtime.topic == topic.name:
                self._background.start(runtime.load())

    def _heartbeat(self, loop: asyncio.AbstractEventLoop) -> None:
        self._line[ProcessLine.HEARTBEAT_NS] = time.monotonic_ns()
        loop.call_later(HEARTBEAT_S, self._beat, loop, loop.time() + HEARTBEAT_S)

    def _beat(self, loop: asyncio.AbstractEventLoop, due_s: float) -> None:
        self._broker.metrics.observe(LOOP_LAG, int((loop.time() - due_s) * 1e9))
        self._heartbeat(loop)

    # --- links ------------------------------------------------------------------------------------------

    def _take_links(self, listener: socket.socket) -> None:
        """Accept the links of other processes."""
        for _ in range(MAX_LINKS_A_TURN):
            try:
                stream = accept(listener)
            except EOFError:
                asyncio.get_running_loop().remove_reader(listener)
                return
            except OSError as error:
                log.error("no link: %s", error)
                continue
            if stream is None:
                return
            stream.setblocking(False)
            self._background.start(self._begin_link(stream))

    async def _begin_link(self, stream: socket.socket) -> None:
        """The requests of a process that died before control read them are dropped: its clients
        know that they get no answer, and may have sent a contrary request since."""
        make = self._abandoned_link if is_abandoned(stream) else self._new_link
        await asyncio.get_running_loop().connect_accepted_socket(make, stream)

    def _new_link(self) -> AsyncLink:
        link = AsyncLink(self._on_message, self._on_lost, self._requests.take_block)
        self._links.add(link)
        return link

    def _abandoned_link(self) -> AsyncLink:
        link = AsyncLink(self._on_abandoned_message, self._on_lost, lambda *_: None)
        self._links.add(link)
        return link

    def _on_abandoned_message(self, link: AsyncLink, call_id: int, body: Any) -> None:
        if isinstance(body, MESSAGES):
            self._logins.serve(link, call_id, body)

    def _on_lost(self, link: AsyncLink) -> None:
        self._links.discard(link)
        links, peer = self._broker.links, link.peer
        worker = peer.index if isinstance(peer, Hello) and peer.role == "io" else None
        if worker is not None and links.worker(worker) is not link:  # it took no calls yet
            worker = None
        links.lost(link)
        self._services.clients.lost(link)
        if worker is not None and not self._stop.is_set():
            self._background.start(self._replication.worker_lost(worker))

    def _on_message(self, link: AsyncLink, call_id: int, body: Any) -> None:
        handler = self._handlers.get(type(body))
        if handler is None:
            log.error("an unknown message: %s", type(body).__name__)
        else:
            handler(link, call_id, body)

    def _message_handlers(self) -> dict[type, Handler]:
        """The handler of each type of message."""
        broker, services, start = self._broker, self._services, self._background.start
        return {
            ClientRequest: self._requests.serve,
            Hello: self._on_hello,
            VerifyTransaction: lambda link, call_id, body: start(self._verify(link, call_id, body)),
            **dict.fromkeys(MESSAGES, self._logins.serve),
            GroupsQuery: lambda link, call_id, _: self._requests.in_slices(
                partial(send_summaries, services, link, call_id)
            ),
            ClientsQuery: lambda link, call_id, _: link.reply(call_id, services.client_metrics()),
            ConnectedQuery: lambda link, call_id, _: start(self._list_clients(link, call_id)),
            ClientReport: lambda link, _, body: services.clients.take(link, body),
            AskWorker: lambda link, call_id, body: start(forward_call(broker, link, call_id, body)),
            ConnectionClosed: lambda _link, _call_id, body: self._connection_closed(body.connection_id),
            BrokerSettings: lambda link, call_id, _: link.reply(call_id, broker.dynamic_settings()),
            MoveCaughtUp: lambda _link, _call_id, body: start(services.moves.caught_up(body)),
            MoveFailed: lambda _link, _call_id, body: services.moves.failed(body),
        }

    def _connection_closed(self, connection_id: int) -> None:
        for listener in self._broker.listeners.connection:
            listener(connection_id)

    def _on_hello(self, link: AsyncLink, _: int, hello: Hello) -> None:
        link.peer = hello
        if hello.role == "network":
            self._register_network(link, hello)
        elif hello.role == "http":
            self._broker.links.observers.add(link)
            link.send(full_image(self._broker))
        else:
            self._background.start(self._workers.greet(link, hello))

    async def _list_clients(self, link: AsyncLink, call_id: int) -> None:
        link.reply(call_id, await connected_clients(list(self._broker.links.networks.values())))

    async def _verify(self, link: AsyncLink, call_id: int, message: VerifyTransaction) -> None:
        link.reply(call_id, await verify(self._services, message))

    def _register_network(self, link: AsyncLink, hello: Hello) -> None:
        """A network process has started: send it a full image, then deltas, in the order of the
        link."""
        self._broker.links.add_network(hello.index, link)
        self._background.start(self._confirmed(link))

    async def _confirmed(self, link: AsyncLink) -> None:
        try:
            await link.call(full_image(self._broker))
        except LinkClosed:
            return


def main(context: ChildContext, dispatch: Callable[[Services], Dispatch], coordinators: Coordinators) -> None:
    """Entry of the role "control". dispatch answers clients' requests; coordinators makes the
    machines that run."""
    try:
        broker = state.build(
            context.shared,
            context.config,
            state.OnlineDirs(context.log_dirs, context.directory_ids, context.clean_dirs),
            advertised_endpoints(context),
            context.cluster_id,
            site_endpoints(context),
        )
    except StoreError as error:
        log.error("%s", error)
        raise SystemExit(EXIT_CANNOT_START) from error
    except sqlite3.Error as error:  # such as of a full disk
        log.error("the store failed, kbroker.db in %s: %s", ", ".join(context.log_dirs), error)
        raise SystemExit(EXIT_CANNOT_START) from error

    async def serve() -> None:
        await Control(context, broker, dispatch, coordinators).run()

    uvloop.run(serve())

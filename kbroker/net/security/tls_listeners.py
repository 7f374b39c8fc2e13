"""The TLS side of a network process: one context per listener, and the running relays."""

import asyncio
import importlib
import logging
import socket
import ssl
import sys
import time
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final

from kbroker.config.broker import BrokerConfig
from kbroker.config.principal_mapping import name_of, rules_of
from kbroker.config.principals import ANONYMOUS
from kbroker.config.setting import ConfigError
from kbroker.config.tls_context import ListenerContext, TlsError, user_of
from kbroker.ipc.background import Background
from kbroker.net.connections.connection import Connection, State
from kbroker.net.security.tls_alert import AlertContext
from kbroker.net.security.tls_relay import relay
from kbroker.net.security.tls_turns import HandshakeTurns
from kbroker.protocol.slices import Work

log = logging.getLogger(__name__)

LAST_BYTES_SECONDS = 2.0
CHECK_SECONDS = 5.0
REST_S: Final = 0.02
"""Pause between two slices of a reload. Each key has a slice: its decryption takes milliseconds."""
PARSER: Final = "cryptography.x509"
"""Reads certificates. Its import takes a tenth of a second."""


def _of_tls(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings by which TLS contexts are made. Others change often, and one at the first start."""
    return {name: value for name, value in settings.items() if "ssl." in name}


class TlsListeners:
    """Runs in: network. Owner: the process."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._contexts = {
            endpoint.listener: ListenerContext(config, endpoint.listener, AlertContext)
            for endpoint in config.listeners
            if endpoint.protocol.tls
        }
        self._next_check_s = 0.0
        self._turns = HandshakeTurns()
        self._relays = Background(log, "a TLS relay failed")
        self._reloads = Background(log, "TLS listeners could not load their stores")
        self._reloading = self._again = False

    def change(self, settings: Mapping[str, str]) -> None:
        """Called when dynamic broker settings have changed: connections use the new keys, once they
        are loaded."""
        if not self._contexts or _of_tls(settings) == _of_tls({**self._config.cluster, **self._config.own}):
            return
        try:
            self._config = self._config.with_dynamic(cluster={}, own=settings)
        except ConfigError as error:
            log.warning("TLS listeners keep their settings: %s", error)
            return
        for context in self._contexts.values():
            context.use(self._config)
        self._reload()

    def _reload_changed(self) -> None:
        """Reload stores whose files have been replaced: a renewed certificate needs no restart.
        Connections that come meanwhile have the one before."""
        now_s = time.monotonic()
        if now_s < self._next_check_s:
            return
        self._next_check_s = now_s + CHECK_SECONDS
        replaced = [context.replaced() for context in self._contexts.values()]
        if any(replaced):
            self._reload()

    def _reload(self) -> None:
        """Load the stores of all listeners again, in slices; once more if a change comes
        meanwhile."""
        self._again = True
        if not self._reloading:
            self._reloading = True
            self._reloads.start(self._reload_all())

    async def _reload_all(self) -> None:
        try:
            if PARSER not in sys.modules:
                await asyncio.to_thread(importlib.import_module, PARSER)
            while self._again:
                self._again = False
                work = Work(self._renew)
                work.run_slice()
                while not work.done:
                    await asyncio.sleep(REST_S)
                    work.run_slice()
        finally:
            self._reloading = False

    def _renew(self) -> None:
        """A listener keeps what it has if its store cannot be used, or has a certificate for other
        names."""
        renewed = True
        for name, context in self._contexts.items():
            try:
                context.renew()
            except TlsError as error:
                log.warning("TLS listener %s keeps its key and trust stores: %s", name, error)
                renewed = False
        if renewed:
            log.info("TLS listeners have loaded their key and trust stores again")

    def pair(self) -> tuple[int, socket.socket]:
        """The ends of an inner connection: the descriptor used as the client's socket, and the
        relay's."""
        ours, relays = socket.socketpair()
        relays.setblocking(False)
        return ours.detach(), relays

    def start(
        self,
        connection: Connection,
        fd: int,
        inner: socket.socket,
        know: Callable[[Connection], None],
        failed: Callable[[Connection, str], None],
        ended: Callable[[Connection], None],
    ) -> None:
        """Relay between a client's descriptor and the inner end. know: called when the client is
        authenticated. failed: called with the reason when it is not. ended: called once both
        sockets are closed."""
        outer = socket.socket(fileno=fd)
        self._reload_changed()

        listener = connection.listener.listener
        rules = rules_of(str(self._config.of_listener(listener, "ssl.principal.mapping.rules")))

        def authenticated(session: ssl.SSLObject) -> bool:
            if connection.listener.protocol.sasl or connection.state is State.CLOSED:
                return True
            subject = user_of(session.getpeercert())
            name = subject if subject == ANONYMOUS else name_of(rules, subject)
            if name is None:
                why = f"no rule of ssl.principal.mapping.rules applies to {subject}"
                log.warning("%s: %s", connection.peer, why)
                failed(connection, why)
                return False
            connection.user = name
            know(connection)
            return True

        context = self._contexts[listener].context
        refused = partial(failed, connection)
        work = relay(outer, inner, context, authenticated, refused, self._turns)
        self._relays.start(_then(work, partial(ended, connection)))

    async def drain(self) -> None:
        """The connections are closed: let the last bytes reach the clients."""
        await self._relays.wait(LAST_BYTES_SECONDS)


async def _then(work: Coroutine[Any, Any, None], ended: Callable[[], None]) -> None:
    try:
        await work
    finally:
        ended()

"""Expiry of the certificates of TLS listeners and of the http port."""

import logging
from collections.abc import Iterator

from kbroker.config.broker import BrokerConfig
from kbroker.config.key_store import KeyStoreError, expires_s, key_store, stamps, texts
from kbroker.http.tls import LISTENER

log = logging.getLogger(__name__)


class Certificates:
    """Runs in: http. Owner: the collector. A file is read again when it has changed."""

    def __init__(self, config: BrokerConfig) -> None:
        names = [e.listener for e in config.listeners if e.protocol.tls]
        if (http := config.get_str(LISTENER)) and http.upper() not in {name.upper() for name in names}:
            names.append(http)
        self._texts = {name: texts(config, name) for name in names}
        self._known: dict[str, tuple[object, float | None]] = {}

    def expiries(self) -> Iterator[tuple[str, float]]:
        """(listener, Unix time) of each readable key store."""
        for listener, text in self._texts.items():
            stamped = list(stamps(text))
            known = self._known.get(listener)
            if known is None or known[0] != stamped:
                try:
                    known = stamped, expires_s(key_store(text))
                except KeyStoreError as error:
                    log.warning("listener %s: %s", listener, error)
                    known = stamped, None
                self._known[listener] = known
            if known[1] is not None:
                yield listener, known[1]

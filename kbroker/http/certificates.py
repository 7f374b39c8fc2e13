"""Expiry of the certificates of TLS listeners."""

import logging
from collections.abc import Iterator

from kbroker.config.broker import BrokerConfig
from kbroker.config.key_store import KeyStoreError, expires_s, key_store, stamps, texts

log = logging.getLogger(__name__)


class Certificates:
    """Runs in: http. Owner: the collector. A file is read again when it has changed."""

    def __init__(self, config: BrokerConfig) -> None:
        self._texts = {e.listener: texts(config, e.listener) for e in config.listeners if e.protocol.tls}
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

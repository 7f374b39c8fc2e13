"""Checks of new settings for TLS listeners, before they are stored: a store that the listeners
could not use is refused (SslFactory.validateReconfiguration)."""

from kbroker.config.broker import BrokerConfig
from kbroker.config.key_store import Chains, KeyStoreError, chains_of, key_store, texts
from kbroker.config.key_store_change import adds_trust, changes_stores, incompatible
from kbroker.config.setting import ConfigError
from kbroker.config.tls_context import TlsError, context_and_chains

_FAILED = "Validation of dynamic config update of SSLFactory failed: "


class TlsChanges:
    """Runs in: control. Owner: the process's main. Its methods read files.

    It follows the network processes by their rule: a replaced file counts when its certificate is
    compatible with the previous one.
    """

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._chains: dict[str, Chains] = {}
        for endpoint in config.listeners:
            if endpoint.protocol.tls and (chains := _chains(config, endpoint.listener)) is not None:
                self._chains[endpoint.listener] = chains

    def check(self, before: BrokerConfig, after: BrokerConfig) -> None:
        """Raises ConfigError, with Kafka's text, if a listener cannot use its new settings."""
        for listener in self._chains:
            if not changes_stores(before, after, listener):
                continue
            if adds_trust(before, after, listener):
                why = "Cannot add SSL truststore to an existing listener for which no truststore was configured."
                raise ConfigError(_FAILED + _exception(why))
            try:
                _, chains = context_and_chains(after, listener)
            except TlsError as error:
                raise ConfigError(f"{_FAILED}{error}") from None
            refused = incompatible(self._config, listener, self._present(before, listener), chains)
            if refused is not None:
                raise ConfigError(_FAILED + _exception(refused))

    def _present(self, config: BrokerConfig, listener: str) -> Chains:
        """The chains that the listener presents now."""
        old, read = self._chains[listener], _chains(config, listener)
        if read is not None and incompatible(self._config, listener, old, read) is None:
            self._chains[listener] = read
        return self._chains[listener]


def _chains(config: BrokerConfig, listener: str) -> Chains | None:
    try:
        return chains_of(key_store(texts(config, listener)))
    except KeyStoreError:
        return None


def _exception(why: str) -> str:
    return f"org.apache.kafka.common.config.ConfigException: {why}"

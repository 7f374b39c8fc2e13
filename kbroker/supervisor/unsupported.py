"""Settings that this version does not support: the broker refuses to start with them.

An authorizer without effect, or a SASL listener that lets every client in, must never look like a
working one.
"""

from collections.abc import Iterator

from kbroker.config.authorizer import Authorizer
from kbroker.config.broker import BrokerConfig
from kbroker.config.jaas import PLAIN_MODULE, plain_users
from kbroker.config.listeners import Endpoint
from kbroker.config.setting import ConfigError
from kbroker.config.tls_context import TlsError, context_and_chains, context_of
from kbroker.http.console.listener import Access, listener_of
from kbroker.net.security.sasl_exchange import OAUTHBEARER, PLAIN, SUPPORTED


def unsupported(config: BrokerConfig) -> list[str]:
    """One text for each unsupported setting; empty if the broker may start."""
    problems = []
    for endpoint in config.listeners:
        if endpoint.protocol.tls:
            try:
                context_of(config, endpoint.listener)
            except TlsError as error:
                problems.append(f"listener {endpoint.listener} ({endpoint.protocol.name}): {error}")
        if endpoint.protocol.sasl:
            problems += _sasl(config, endpoint)
    if name := config.get_str("kbroker.http.ssl.listener"):
        try:
            context_and_chains(config, name, asks_clients=False)
        except TlsError as error:
            problems.append(f"kbroker.http.ssl.listener={name}: {error}")
    problems += _metrics_login(config)
    try:
        Authorizer.of(config)
    except ConfigError as error:
        problems.append(str(error))
    return problems


def _metrics_login(config: BrokerConfig) -> Iterator[str]:
    if config.get_bool("kbroker.metrics.login") and listener_of("", config).access is not Access.LOGIN:
        yield (
            "kbroker.metrics.login: it needs a SASL listener that requires no client certificate, and SCRAM "
            "among its sasl.enabled.mechanisms"
        )


def _sasl(config: BrokerConfig, endpoint: Endpoint) -> Iterator[str]:
    mechanisms = config.of_listener(endpoint.listener, "sasl.enabled.mechanisms")
    enabled = mechanisms if isinstance(mechanisms, tuple) else ()
    if not enabled:
        yield f"listener {endpoint.listener}: sasl.enabled.mechanisms is empty"
    for mechanism in enabled:
        if mechanism not in SUPPORTED:
            yield (
                f"listener {endpoint.listener}: SASL mechanism {mechanism} is not supported, set "
                f"sasl.enabled.mechanisms to some of {', '.join(SUPPORTED)}"
            )
    if OAUTHBEARER in enabled:
        from kbroker.net.security.oauth import why_unusable  # few brokers use it

        if (why := why_unusable(config, endpoint.listener)) is not None:
            yield f"listener {endpoint.listener}: {why}"
    if PLAIN in enabled:
        key = f"listener.name.{endpoint.listener.lower()}.plain.sasl.jaas.config"
        text = config.of_listener(endpoint.listener, "sasl.jaas.config", PLAIN)
        if not isinstance(text, str):
            yield f'{key} must be set: {PLAIN_MODULE} required user_NAME="PASSWORD" ...;'
            return
        try:
            plain_users(text)
        except ConfigError as error:
            yield f"{key}: {error}"

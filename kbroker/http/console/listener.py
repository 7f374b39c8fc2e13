"""The choice of the broker's listener for the console, and whether the console requires a login.
Pure."""

from collections.abc import Collection, Mapping, Sequence
from enum import Enum

from msgspec import Struct

from kbroker.config.broker import BrokerConfig
from kbroker.config.client_network import is_loopback
from kbroker.config.key_store import client_auth
from kbroker.config.listeners import Endpoint, SecurityProtocol
from kbroker.http.console.scram_client import HASHES

_ORDER = (
    SecurityProtocol.PLAINTEXT,
    SecurityProtocol.SSL,
    SecurityProtocol.SASL_PLAINTEXT,
    SecurityProtocol.SASL_SSL,
)
_ANY = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}


class Access(Enum):
    """Access to the console: open on this host, with a login, or closed."""

    OPEN = "open"
    LOGIN = "login"
    CLOSED = "closed"


class ConsoleListener(Struct, frozen=True):
    """The console's access, its listener (None if CLOSED), the mechanisms of logins, the preferred
    one first, and the reason if it is closed."""

    access: Access
    endpoint: Endpoint | None = None
    mechanisms: tuple[str, ...] = ()
    why: str = ""

    @property
    def name(self) -> str:
        """Name of the listener."""
        assert self.endpoint is not None
        return self.endpoint.listener

    @property
    def tls(self) -> bool:
        """Whether the listener speaks TLS."""
        return self.endpoint is not None and self.endpoint.protocol.tls

    def address(self, ports: Mapping[str, int], site: int = 0) -> tuple[str, int]:
        """The listener's address for a client on this host."""
        assert self.endpoint is not None
        port = ports.get(f"{self.name}@{site}" if site else self.name, self.endpoint.port + site)
        return _ANY.get(self.endpoint.host, self.endpoint.host), port


def choose(
    host: str,
    endpoints: Sequence[Endpoint],
    mechanisms: Mapping[str, Sequence[str]],
    for_certificates: Collection[str] = (),
) -> ConsoleListener:
    """host: the address of the http process. mechanisms: by listener. for_certificates: listeners
    that require one of their clients, which this process does not have. On loopback the console is
    open, with the rights of an anonymous client. On other addresses, or if every listener requires
    a login, users log in with SCRAM."""
    ordered = sorted(endpoints, key=lambda endpoint: _ORDER.index(endpoint.protocol))
    refusing: list[str] = []
    for endpoint in ordered:
        offered = mechanisms.get(endpoint.listener, ())
        scram = tuple(name for name in HASHES if name in offered) if endpoint.protocol.sasl else ()
        is_open = is_loopback(host) and not endpoint.protocol.sasl
        if not (scram or is_open):
            continue
        if endpoint.listener in for_certificates:
            refusing.append(endpoint.listener)
            continue
        return ConsoleListener(Access.OPEN if is_open else Access.LOGIN, endpoint, scram)
    if refusing:
        why = f"listeners require client certificates (ssl.client.auth): {', '.join(refusing)}"
    elif is_loopback(host):
        why = "no listener takes clients without a login or with SCRAM"
    else:
        why = "on other addresses than loopback it needs a SASL listener with SCRAM"
    return ConsoleListener(Access.CLOSED, why=why)


def listener_of(host: str, config: BrokerConfig) -> ConsoleListener:
    """The choice for a broker's settings."""
    mechanisms = {
        endpoint.listener: found
        for endpoint in config.listeners
        if isinstance(found := config.of_listener(endpoint.listener, "sasl.enabled.mechanisms"), tuple)
    }
    names = [each.listener for each in config.listeners if each.protocol.tls]
    return choose(
        host,
        config.listeners,
        mechanisms,
        [name for name in names if client_auth(config, name) == "required"],
    )

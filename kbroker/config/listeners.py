"""Endpoints from `listeners`, `advertised.listeners` and `listener.security.protocol.map`."""

import re
from collections.abc import Iterable, Mapping
from enum import IntEnum

from msgspec import Struct

from kbroker.config.setting import ConfigError

_ENDPOINT = re.compile(r"(.*)://(?:\[([0-9a-zA-Z\-%._:]*)\]|([0-9a-zA-Z\-%._]*)):(-?[0-9]{1,10})")


class SecurityProtocol(IntEnum):
    """Security protocol: encryption and authentication of a listener; the numbers are Kafka's
    ids."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3

    @property
    def tls(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def sasl(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


Protocols = Mapping[str, SecurityProtocol]


class Endpoint(Struct, frozen=True):
    """One listener. An empty host binds all addresses; port 0 takes any free port."""

    listener: str
    protocol: SecurityProtocol
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener}://{host}:{self.port}"


def parse_protocol_map(key: str, text: str) -> dict[str, SecurityProtocol]:
    """NAME:PROTOCOL pairs. Raises ConfigError for a bad pair, an unknown protocol or a name given
    twice."""
    protocols: dict[str, SecurityProtocol] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = (part.strip() for part in entry.rpartition(":"))
        if not colon or not name:
            raise ConfigError(f"Error parsing configuration property '{key}': '{entry}' is not NAME:PROTOCOL")
        if protocol.upper() not in SecurityProtocol.__members__:
            raise ConfigError(f"Invalid security protocol `{protocol}` defined in {key}")
        if name.upper() in protocols:
            raise ConfigError(f"Error parsing configuration property '{key}': {name.upper()} is mapped twice")
        protocols[name.upper()] = SecurityProtocol[protocol.upper()]
    return protocols


def listener_name(entry: str) -> str:
    """Name of a listener entry in its normal form, upper case; the whole entry if it has no
    `://`."""
    return entry.partition("://")[0].strip().upper()


def parse_listeners(entries: Iterable[str], protocols: Protocols) -> tuple[Endpoint, ...]:
    """Parse listener entries. Raises ConfigError with Kafka's text for the first that is wrong."""
    every = tuple(entries)
    try:
        return tuple(_parse_one(entry, protocols) for entry in every)
    except ConfigError as error:
        raise ConfigError(f"Error creating broker listeners from '[{', '.join(every)}]': {error}") from None


def _parse_one(entry: str, protocols: Protocols) -> Endpoint:
    match = _ENDPOINT.fullmatch(entry.strip())
    if match is None or not match[1]:
        raise ConfigError(f"Unable to parse {entry} to a broker endpoint")
    name, port = match[1].upper(), int(match[4])
    if name not in protocols:
        raise ConfigError(f"No security protocol defined for listener {name}")
    if not 0 <= port <= 65535:
        raise ConfigError(f"Unable to parse {entry} to a broker endpoint: port must be 0 to 65535")
    return Endpoint(name, protocols[name], match[2] or match[3] or "", port)


def check_distinct(key: str, endpoints: Iterable[Endpoint], *, ports: bool) -> None:
    """Names must differ; with `ports` also the ports, save one IPv4 and one IPv6 address on the
    same port."""
    every = tuple(endpoints)
    shown = ",".join(map(str, every))
    if len({endpoint.listener for endpoint in every}) != len(every):
        raise ConfigError(f"Each listener must have a different name, {key}: {shown}")
    if not ports:
        return
    by_port: dict[int, list[Endpoint]] = {}
    for endpoint in every:
        if endpoint.port:
            by_port.setdefault(endpoint.port, []).append(endpoint)
    for sharing in by_port.values():
        families = sorted(_family(endpoint.host) for endpoint in sharing)
        if len(sharing) > 1 and families != [4, 6]:
            raise ConfigError(
                "Each listener must have a different port unless exactly one listener has an IPv4 address "
                f"and the other IPv6 address, {key}: {shown}"
            )


def _family(host: str) -> int:
    """6 and 4 for literal addresses, 0 for names and for all addresses."""
    if ":" in host:
        return 6
    return 4 if re.fullmatch(r"[0-9]+(\.[0-9]+){3}", host) else 0

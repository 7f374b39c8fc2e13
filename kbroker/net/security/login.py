"""The login state of one connection."""

import asyncio
from enum import Enum

from kbroker.net.security.sasl_exchange import Exchange


class Expects(Enum):
    """Kind of frame that is expected next during a login."""

    VERSIONS_OR_HANDSHAKE = 1
    HANDSHAKE = 2
    TOKEN = 3


class Login:
    """Login state of a connection. Owner: Logins."""

    __slots__ = (
        "again",
        "bad_mechanism",
        "bare",
        "began_ns",
        "exchange",
        "expects",
        "expired",
        "mechanism",
        "timer",
    )

    def __init__(self) -> None:
        self.expects = Expects.VERSIONS_OR_HANDSHAKE
        self.mechanism = ""
        self.exchange: Exchange | None = None
        self.bare = False  # tokens are not wrapped in requests
        self.again = False  # this is a re-authentication
        self.bad_mechanism = ""
        self.began_ns = 0  # time of the last re-authentication
        self.expired = False
        self.timer: asyncio.TimerHandle | None = None

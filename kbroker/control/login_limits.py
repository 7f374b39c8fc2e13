"""Limits of password guessing, by address, and by address and user. Pure: times are passed in.

Each attempt takes a token from a bucket that refills slowly; a successful attempt returns its
token. So a user who knows the password is delayed only where many wrong guesses come from the same
address. When the bucket is empty an attempt waits for its turn before its password is checked: a
client that gives up early learns nothing. The addresses of an IPv6 network (/64) count as one.
"""

from typing import Final

from msgspec import Struct

from kbroker.config.broker import BrokerConfig
from kbroker.config.client_network import network_of
from kbroker.config.principals import kept_name
from kbroker.ipc.rate_limit import TokenBucket

NS: Final = 1_000_000_000


class Allowance(Struct, frozen=True):
    """Attempts at once, and a second from then on; 0 a second is without limit."""

    at_once: float
    per_second: float


OF_USER: Final = Allowance(10, 1)
OF_ADDRESS: Final = Allowance(50, 5)
SETTINGS: Final = "kbroker.login.attempts"
MAX_WAIT_S: Final = 10.0
MAX_KEYS: Final = 1 << 16

Key = tuple[str, str | None]


class LoginLimits:
    """Runs in: control, for all network processes. Owner: Logins."""

    def __init__(self, of_user: Allowance = OF_USER, of_address: Allowance = OF_ADDRESS) -> None:
        self._of_user = of_user
        self._of_address = of_address
        self._buckets: dict[Key, TokenBucket] = {}
        """Buckets that are not full, the oldest first."""

    @classmethod
    def of(cls, config: BrokerConfig) -> "LoginLimits":
        """LoginLimits with the limits of the settings."""
        user, address = (
            Allowance(
                config.get_int(f"{SETTINGS}.{key}.burst"), config.get_int(f"{SETTINGS}.{key}.per.second")
            )
            for key in ("user", "address")
        )
        return cls(user, address)

    def attempt(self, host: str, user: str, now_ns: int) -> float | None:
        """Seconds that this attempt waits; None: too many attempts wait already, and it is refused
        unchecked."""
        now_s = now_ns / NS
        buckets = [(key, self._bucket(key, allowance, now_s)) for key, allowance in self._keys(host, user)]
        wait = max((bucket.wait_s() for _, bucket in buckets), default=0.0)
        if wait > MAX_WAIT_S:
            return None
        for key, bucket in buckets:
            bucket.take()
            self._put(key, bucket)
        return wait

    def succeeded(self, host: str, user: str, now_ns: int) -> None:
        """The attempt succeeded: return its token, and those of the user's earlier attempts."""
        host = network_of(host)
        self._buckets.pop((host, kept_name(user)), None)
        if self._of_address.per_second:
            address = self._bucket((host, None), self._of_address, now_ns / NS)
            address.add(1)
            self._put((host, None), address)

    def _bucket(self, key: Key, allowance: Allowance, now_s: float) -> TokenBucket:
        found = self._buckets.get(key)
        if found is None:
            return TokenBucket(allowance.at_once, allowance.per_second, now_s)
        found.refill(now_s)
        return found

    def _put(self, key: Key, bucket: TokenBucket) -> None:
        self._buckets.pop(key, None)
        if bucket.tokens >= bucket.capacity:
            return
        if len(self._buckets) >= MAX_KEYS:
            del self._buckets[next(iter(self._buckets))]
        self._buckets[key] = bucket

    def _keys(self, host: str, user: str) -> list[tuple[Key, Allowance]]:
        host = network_of(host)
        both = ((host, kept_name(user)), self._of_user), ((host, None), self._of_address)
        return [(key, allowance) for key, allowance in both if allowance.per_second]

"""Limits of password guessing, by address, and by address and user. Pure: times are passed in.

Each attempt takes a token from a bucket that refills slowly; a successful attempt returns its token. So a
user who knows the password is delayed only where many wrong guesses come from the same address. When the
bucket is empty an attempt waits for its turn before its password is checked: a client that gives up early
learns nothing.
"""

from dataclasses import dataclass
from typing import Final

from kbroker.config.broker import BrokerConfig

NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Allowance:
    """Attempts at once, and a second from then on; 0 a second is without limit."""

    at_once: float
    per_second: float


OF_USER: Final = Allowance(10, 1)
OF_ADDRESS: Final = Allowance(50, 5)
SETTINGS: Final = "kbroker.login.attempts"
MOST_WAIT_S: Final = 10.0
MOST_KEYS: Final = 1 << 16

Key = tuple[str, str | None]


class Guesses:
    """Runs in: control, for all network processes. Owner: the process's main."""

    def __init__(self, of_user: Allowance = OF_USER, of_address: Allowance = OF_ADDRESS) -> None:
        self._of_user = of_user
        self._of_address = of_address
        self._taken: dict[Key, tuple[float, int]] = {}
        """Attempts that are taken and not filled up yet, and when that was, by key; the oldest first."""

    @classmethod
    def of(cls, config: BrokerConfig) -> "Guesses":
        """With the limits of the settings."""
        user, address = (
            Allowance(
                config.get_int(f"{SETTINGS}.{key}.burst"), config.get_int(f"{SETTINGS}.{key}.per.second")
            )
            for key in ("user", "address")
        )
        return cls(user, address)

    def attempt(self, host: str, user: str, now_ns: int) -> float | None:
        """Seconds that this attempt waits; None: too many wait already, it is refused unseen."""
        waits = []
        for key, allowance in self._keys(host, user):
            wanted = self._now(key, allowance, now_ns) + 1
            waits.append((wanted - allowance.at_once) / allowance.per_second)
        wait = max(0.0, *waits) if waits else 0.0
        if wait > MOST_WAIT_S:
            return None
        for key, allowance in self._keys(host, user):
            self._put(key, self._now(key, allowance, now_ns) + 1, now_ns)
        return wait

    def succeeded(self, host: str, user: str, now_ns: int) -> None:
        """The attempt succeeded: return its token, and those of the user's earlier attempts."""
        self._taken.pop((host, user), None)
        if self._of_address.per_second:
            self._put((host, None), self._now((host, None), self._of_address, now_ns) - 1, now_ns)

    def _now(self, key: Key, allowance: Allowance, now_ns: int) -> float:
        taken, at_ns = self._taken.get(key, (0.0, now_ns))
        return max(0.0, taken - (now_ns - at_ns) / NS * allowance.per_second)

    def _put(self, key: Key, taken: float, now_ns: int) -> None:
        self._taken.pop(key, None)
        if taken <= 0:
            return
        if len(self._taken) >= MOST_KEYS:
            del self._taken[next(iter(self._taken))]
        self._taken[key] = taken, now_ns

    def _keys(self, host: str, user: str) -> list[tuple[Key, Allowance]]:
        both = ((host, user), self._of_user), ((host, None), self._of_address)
        return [(key, allowance) for key, allowance in both if allowance.per_second]

"""Sessions of logged-in users; the limits of failed logins, and of logins at the same time."""

import hmac
import secrets
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable

from kbroker.config.client_network import network_of
from kbroker.http.console.caller import Caller
from kbroker.http.console.schema import Parameter

LOGIN = (
    Parameter("user", "Name of the user.", required=True),
    Parameter("password", "The user's password.", required=True, high=1000),
)
"""The body of a login."""
MAX_SESSIONS = 64
IDLE_S = 1800.0
MAX_S = 12 * 3600.0
TRIES = 5
TRIES_ALL = 60
PER_S = 60.0
RESERVE_S = 2.0
"""After too many failures of all addresses together, one login in this time is still allowed, from
an address without a failure."""
ADDRESSES = 1024
LOGINS, LOGINS_OF_AN_ADDRESS = 16, 2
"""Logins that the broker checks at the same time. It delays those of an address with many wrong
guesses by up to ten seconds each; even TRIES_ALL of these a minute do not take all places."""


class Session:
    """A user's session. token: value of the cookie. csrf: token that changes must send in a
    header."""

    def __init__(self, caller: Caller, now_s: float) -> None:
        self.token = secrets.token_urlsafe(32)
        self.csrf = secrets.token_urlsafe(32)
        self.caller = caller
        self.began_s = self.used_s = now_s


class Sessions:
    """Runs in: http. Owner: the console. Thread-safe. Only in memory: a restart of the http process
    ends all sessions."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._lock = threading.Lock()

    def begin(self, caller: Caller) -> Session:
        """Open a session. When there are too many, the least recently used one of the user who has
        most of them is closed: one user cannot log out the others."""
        session = Session(caller, self._clock_s())
        with self._lock:
            ended = self._one_too_many()
            if ended is not None:
                del self._sessions[ended.token]
            self._sessions[session.token] = session
        if ended is not None:
            ended.caller.close()
        return session

    def _one_too_many(self) -> Session | None:
        if len(self._sessions) < MAX_SESSIONS:
            return None
        counts = Counter(session.caller.user for session in self._sessions.values())
        return min(self._sessions.values(), key=lambda session: -counts[session.caller.user])

    def of(self, token: str) -> Session | None:
        """The session of a cookie; None if it was idle for too long or is too old, or the user's
        credential has changed."""
        now = self._clock_s()
        with self._lock:
            session = self._sessions.get(token)
        if session is None:
            return None
        is_young = now - session.used_s <= IDLE_S and now - session.began_s <= MAX_S
        if not is_young or session.caller.is_outdated:  # that may wait, so without the lock
            self.end(token)
            return None
        with self._lock:
            if token in self._sessions:
                session.used_s = now
                self._sessions.move_to_end(token)
                return session
        return None

    def end(self, token: str) -> None:
        """Log out."""
        with self._lock:
            session = self._sessions.pop(token, None)
        if session is not None:
            session.caller.close()


class Attempts:
    """Limits failed logins per minute, by address and in total. Thread-safe.

    Too many failures in total exclude all addresses, except those from which a user has logged in
    before, and one address without a failure each RESERVE_S. The addresses of an IPv6 network (/64)
    count as one, because each host has as many as it likes.
    """

    def __init__(
        self,
        clock_s: Callable[[], float] = time.monotonic,
        by_address: int = TRIES,
        in_all: int = TRIES_ALL,
    ) -> None:
        self._clock_s = clock_s
        self._by_address = by_address
        self._in_all = in_all
        self._failed: OrderedDict[str, list[float]] = OrderedDict()
        self._all: list[float] = []
        self._succeeded: OrderedDict[str, None] = OrderedDict()
        self._reserve_s = -RESERVE_S
        self._lock = threading.Lock()

    def allowed(self, address: str) -> bool:
        """Whether this address may try now. Counts the attempt as failed until `succeeded` or
        `uncount` is called."""
        address = network_of(address)
        now = self._clock_s()
        with self._lock:
            self._all = [at for at in self._all if now - at < PER_S]
            recent = [at for at in self._failed.pop(address, []) if now - at < PER_S]
            if recent:
                self._failed[address] = recent
            if len(recent) >= self._by_address:
                return False
            if len(self._all) >= self._in_all and not self._is_excepted(address, recent, now):
                return False
            recent.append(now)
            self._failed[address] = recent
            self._all.append(now)
            while len(self._failed) > ADDRESSES:
                self._failed.popitem(last=False)
            return True

    def _is_excepted(self, address: str, recent: list[float], now: float) -> bool:
        """Whether an address may try although all together have failed too often."""
        if address in self._succeeded:
            return True
        if recent or now - self._reserve_s < RESERVE_S:
            return False
        self._reserve_s = now
        return True

    def succeeded(self, address: str) -> None:
        """The last attempt succeeded."""
        self.uncount(address)
        address = network_of(address)
        with self._lock:
            self._succeeded[address] = None
            self._succeeded.move_to_end(address)
            while len(self._succeeded) > ADDRESSES:
                self._succeeded.popitem(last=False)

    def uncount(self, address: str) -> None:
        """The last attempt was not a failed login: the broker did not check it."""
        address = network_of(address)
        with self._lock:
            if self._failed.get(address):
                self._failed[address].pop()
            if self._all:
                self._all.pop()


class LoginPlaces:
    """Logins that wait for the broker's answer: a limited number, in total and of each address. The
    addresses of an IPv6 network count as one. Thread-safe."""

    def __init__(self) -> None:
        self._taken: Counter[str] = Counter()
        self._lock = threading.Lock()

    def enter(self, address: str) -> bool:
        """Take a place; `leave` frees it. False if there is none."""
        address = network_of(address)
        with self._lock:
            if self._taken.total() >= LOGINS or self._taken[address] >= LOGINS_OF_AN_ADDRESS:
                return False
            self._taken[address] += 1
            return True

    def leave(self, address: str) -> None:
        """The login has ended."""
        address = network_of(address)
        with self._lock:
            self._taken[address] -= 1
            self._taken = +self._taken


def same(given: str | None, expected: str) -> bool:
    """Whether two secrets are equal, in constant time."""
    return given is not None and hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())

"""Requests to the broker as an anonymous client or as a user, over a small pool of connections."""

import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from http import HTTPStatus
from typing import Any

import msgspec

from kbroker.config.sites import sites_of
from kbroker.http.console.broker_link import DEADLINE_S, BrokerLink, LinkBroken, LoginRefused
from kbroker.http.console.listener import ConsoleListener
from kbroker.http.console.refusal import NotServed, not_served, quota_used_up, unavailable
from kbroker.http.console.scram_client import CredentialChanged, ScramClient, ScramFailed
from kbroker.http.console.turns import Turns
from kbroker.http.console.user_login import UserLogin
from kbroker.http.control_view import ControlView
from kbroker.ipc.child import ChildContext
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.schema import Struct

IDLE_LINKS = 4
IDLE_S = 30.0
WAIT_S = 5.0
"""Maximum time that a request waits for its turn; then it is refused."""

_NO_WAITS: ContextVar[bool] = ContextVar("no_waits", default=False)
_RESERVED: ContextVar["_ReservedLink | None"] = ContextVar("reserved", default=None)

Address = Callable[[int], tuple[str, int]]

Login = tuple[str, str]
"""Name and password of a user."""
Callers = Callable[[Login | None, str], "Caller"]
"""Makes the caller of a user, or an anonymous one, for a client at an address."""


class Caller:
    """Runs in: http. Owner: the console (anonymous) or a session (a user). Thread-safe.

    address: of the chosen listener, by site number. turns: shared by all callers. When a quota is
    used up, the broker reads nothing more from the connection for the throttle time of its answer:
    the connection is closed, and the next request of this caller waits for that time instead."""

    def __init__(
        self,
        address: Address,
        sites: Sequence[int],
        tls: ssl.SSLContext | None,
        turns: Turns,
        login: UserLogin | None = None,
        clock_s: Callable[[], float] = time.monotonic,
        sleep_s: Callable[[float], None] = time.sleep,
    ) -> None:
        self._address = address
        self._sites = {node: number for number, node in enumerate(sites)}
        self._tls = tls
        self._turns = turns
        self._login = login
        self._clock_s = clock_s
        self._sleep_s = sleep_s
        self._throttled_until_s = clock_s()
        self._is_outdated = False
        self._idle: list[_IdleLink] = []
        self._lock = threading.Lock()

    @property
    def user(self) -> str | None:
        """Name of the user, None for an anonymous client."""
        return None if self._login is None else self._login.user

    @property
    def mechanism(self) -> str | None:
        """SCRAM mechanism of the user's login, None for an anonymous client."""
        return None if self._login is None else self._login.mechanism

    @property
    def is_outdated(self) -> bool:
        """Whether the user's credential has changed, so that this caller cannot log in any more.
        May wait for control."""
        return self._is_outdated or (self._login is not None and self._login.has_changed())

    def ask(
        self,
        api: ApiKey,
        request: Struct,
        version: int | None = None,
        node: int | None = None,
        deadline_s: float = DEADLINE_S,
    ) -> Any:
        """The answer of a node (None: any node). Raises Refusal if the broker cannot be reached, or
        no longer accepts the user: NotServed if nothing was sent."""
        site = self._site(node)
        with self._turn(deadline_s):
            return self._ask(site, api, request, version, deadline_s)

    @contextmanager
    def reserved(self, node: int | None) -> Iterator[None]:
        """Reserves a connection for the next change of this thread at a node, so that the broker
        reads the change at once: the connection is opened, and the quota waited for, now. Raises
        Refusal."""
        kept = _ReservedLink(self, self._site(node))
        with self._turn(DEADLINE_S):
            link = kept.link = self._opened(kept.site)
        if link.delay_ms > DEADLINE_S * 1000:
            link.close()
            raise quota_used_up("the broker delays requests")
        before = _RESERVED.set(kept)
        try:
            if link.delay_ms > 0:
                self._sleep_s(link.delay_ms / 1000)
            yield
        finally:
            _RESERVED.reset(before)
            if kept.link is not None:
                self._put_idle(kept.site, kept.link)

    def log_in(self) -> None:
        """Open one connection to check that the broker accepts the user. Raises LoginRefused,
        ScramFailed, LinkBroken."""
        self._put_idle(0, self._connect(0))

    def close(self) -> None:
        """Close the pooled connections."""
        with self._lock:
            links, self._idle = self._idle, []
        for kept in links:
            kept.link.close()

    def _site(self, node: int | None) -> int:
        return self._sites.get(node, 0) if node is not None else 0

    @contextmanager
    def _turn(self, limit_s: float) -> Iterator[None]:
        """Waits for the quota, then for a turn. A request in `no_waits` needs none: it would wait
        for slow requests of its own user. Raises NotServed."""
        if _NO_WAITS.get():
            yield
            return
        left_s = min(limit_s, self._throttled_until_s - self._clock_s())
        if left_s > 0:
            self._sleep_s(left_s)  # without a turn, for which others would wait
        if not self._turns.take(self.user, WAIT_S):
            raise not_served("too many requests at the same time; try again")
        try:
            yield
        finally:
            self._turns.leave(self.user)

    def _ask(self, site: int, api: ApiKey, request: Struct, version: int | None, deadline_s: float) -> Any:
        kept = self._take_idle(site) if api in READS else None
        if kept is not None:
            try:
                answer = kept.link.ask(api, request, version, deadline_s)
            except LinkBroken:
                kept.link.close()  # perhaps closed while idle: try a new one
            else:
                self._answered(site, kept.link, answer)
                return answer
        link = self._take_reserved(site) if api not in READS else None
        link = link or self._opened(site)
        try:
            answer = link.ask(api, request, version, deadline_s)
        except LinkBroken as error:
            link.close()
            raise unavailable(f"the broker did not answer: {error}") from error
        except BaseException:
            link.close()
            raise
        self._answered(site, link, answer)
        return answer

    def _take_reserved(self, site: int) -> BrokerLink | None:
        """The connection that this thread has reserved for a change; None without one."""
        kept = _RESERVED.get()
        if kept is None or kept.caller is not self or kept.site != site:
            return None
        link, kept.link = kept.link, None
        return link

    def _opened(self, site: int) -> BrokerLink:
        """A new connection. Raises NotServed."""
        try:
            link = self._connect(site)
        except (LoginRefused, CredentialChanged) as error:
            self._is_outdated |= isinstance(error, CredentialChanged)
            text = "the broker no longer accepts this login, log in again"
            raise NotServed(HTTPStatus.UNAUTHORIZED, "login", text) from error
        except (LinkBroken, ScramFailed) as error:
            raise not_served(f"the broker cannot be asked: {error}") from error
        if link.delay_ms > 0 and _NO_WAITS.get():
            link.close()
            raise quota_used_up("the broker delays requests")
        return link

    def _answered(self, site: int, link: BrokerLink, answer: Any) -> None:
        """Keep the connection of an answer, unless the broker reads nothing from it for now."""
        throttle_ms = getattr(answer, "throttle_time_ms", 0)
        if throttle_ms <= 0:
            self._put_idle(site, link)
            return
        link.close()
        with self._lock:
            until_s = self._clock_s() + min(throttle_ms / 1000, DEADLINE_S)
            self._throttled_until_s = max(self._throttled_until_s, until_s)

    def _connect(self, site: int) -> BrokerLink:
        link = BrokerLink(self._address(site), self._tls, DEADLINE_S)
        try:
            link.open(self._login)
        except ScramFailed:
            link.close()
            raise
        return link

    def _take_idle(self, site: int) -> "_IdleLink | None":
        old: list[BrokerLink] = []
        found = None
        with self._lock:
            now = self._clock_s()
            kept = []
            for entry in self._idle:
                if now - entry.since_s > IDLE_S:
                    old.append(entry.link)
                elif found is None and entry.site == site:
                    found = entry
                else:
                    kept.append(entry)
            self._idle = kept
        for link in old:
            link.close()
        return found

    def _put_idle(self, site: int, link: BrokerLink) -> None:
        with self._lock:
            if len(self._idle) < IDLE_LINKS:
                self._idle.append(_IdleLink(self._clock_s(), site, link))
                return
        link.close()


@contextmanager
def no_waits() -> Iterator[None]:
    """A block in which requests of this thread wait neither for throttle times nor for a turn, as
    the thread holds a lock that other users wait for. The next request of the caller waits instead.
    A request that the broker would let wait is refused with QuotaUsedUp."""
    before = _NO_WAITS.set(True)
    try:
        yield
    finally:
        _NO_WAITS.reset(before)


def must_not_wait() -> bool:
    """Whether this thread is in a block of `no_waits`."""
    return _NO_WAITS.get()


class _ReservedLink(msgspec.Struct):
    """A connection that a thread has reserved for a change. link: None once it is used."""

    caller: Caller
    site: int
    link: BrokerLink | None = None


class _IdleLink(msgspec.Struct, frozen=True):
    """A connection in the pool, idle since `since_s` (monotonic)."""

    since_s: float
    site: int
    link: BrokerLink


READS = frozenset(
    {
        ApiKey.METADATA,
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.OFFSET_FETCH,
        ApiKey.LIST_GROUPS,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.SHARE_GROUP_DESCRIBE,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        ApiKey.STREAMS_GROUP_DESCRIBE,
        ApiKey.LIST_TRANSACTIONS,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKey.DESCRIBE_ACLS,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.DESCRIBE_PRODUCERS,
    }
)
"""Requests that may be repeated on a new connection if a pooled one has ended. Other requests
always get a new connection."""


def callers_of(context: ChildContext, control: ControlView, listener: ConsoleListener) -> Callers:
    """Clients of the broker over one of its listeners."""
    tls = own_listener() if listener.tls else None
    nodes = tuple(site.node_id for site in sites_of(context.config))
    turns = Turns()

    def caller(login: Login | None, peer: str) -> Caller:
        user = None
        if login is not None:
            client = ScramClient("", *login)
            user = UserLogin(control, listener.name, listener.mechanisms, peer, client)
        return Caller(lambda site: listener.address(context.ports, site), nodes, tls, turns, user)

    return caller


def own_listener() -> ssl.SSLContext:
    """The console connects to the address that its own broker has bound, so it cannot reach another
    server. The certificate has the names that clients use."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context

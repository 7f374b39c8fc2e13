"""HTTP Basic logins of the broker's SCRAM users, for the registry and /metrics."""

import base64
import threading
from collections import OrderedDict
from hashlib import sha256
from http import HTTPStatus
from typing import Final

from kbroker.http.console.broker_link import LinkBroken, LoginRefused
from kbroker.http.console.caller import Caller, Callers, callers_of
from kbroker.http.console.listener import Access, listener_of
from kbroker.http.console.scram_client import ScramFailed
from kbroker.http.console.sessions import Attempts
from kbroker.http.control_view import ControlView
from kbroker.ipc.child import ChildContext

MAX_LOGINS: Final = 100
METRICS_LOGIN: Final = "kbroker.metrics.login"
CHALLENGE: Final = 'Basic realm="kbroker"'
"""Value of WWW-Authenticate in an answer with 401."""


class NotLoggedIn(Exception):
    """A request is refused."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class BasicLogins:
    """Runs in: http; thread-safe. A login of an address that succeeded is not repeated until the
    user's credential changes.

    callers: makes a client of the broker, anonymous or for a user."""

    def __init__(self, callers: Callers, attempts: Attempts) -> None:
        self._callers = callers
        self._attempts = attempts
        self._known: OrderedDict[bytes, Caller] = OrderedDict()
        self._lock = threading.Lock()

    def caller(self, authorization: str, peer: str) -> Caller:
        """The client of the user that an Authorization header names. Raises NotLoggedIn."""
        kind, _, encoded = authorization.partition(" ")
        if kind.lower() != "basic":
            raise NotLoggedIn(HTTPStatus.UNAUTHORIZED, "Log in as a SCRAM user of the broker")
        try:
            user, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
        except ValueError:  # not base64, not ASCII, not UTF-8
            raise NotLoggedIn(HTTPStatus.UNAUTHORIZED, "no user and password") from None
        if not user:
            raise NotLoggedIn(HTTPStatus.UNAUTHORIZED, "no user and password")
        key = sha256(f"{peer} {authorization}".encode()).digest()
        if (known := self._kept(key)) is not None:
            return known
        if not self._attempts.allowed(peer):
            raise NotLoggedIn(HTTPStatus.TOO_MANY_REQUESTS, "too many logins failed, wait a minute")
        caller = self._callers((user, password), peer)
        try:
            caller.log_in()
        except (LoginRefused, ScramFailed):
            raise NotLoggedIn(HTTPStatus.UNAUTHORIZED, "unknown user or wrong password") from None
        except LinkBroken as error:
            self._attempts.uncount(peer)
            text = f"the broker cannot be asked: {error}"
            raise NotLoggedIn(HTTPStatus.SERVICE_UNAVAILABLE, text) from error
        self._attempts.succeeded(peer)
        self._keep(key, caller)
        return caller

    def _kept(self, key: bytes) -> Caller | None:
        with self._lock:
            known = self._known.get(key)
            if known is not None:
                self._known.move_to_end(key)
        return None if known is None or known.is_outdated else known

    def _keep(self, key: bytes, caller: Caller) -> None:
        ended = []
        with self._lock:
            if (old := self._known.pop(key, None)) is not None:
                ended.append(old)
            self._known[key] = caller
            while len(self._known) > MAX_LOGINS:
                ended.append(self._known.popitem(last=False)[1])
        for each in ended:
            each.close()


def metrics_logins(context: ChildContext, control: ControlView) -> BasicLogins | None:
    """The logins of /metrics; None if none is needed. Raises RuntimeError if no listener knows
    SCRAM users; the broker has checked that before."""
    config = context.config
    if not config.get_bool(METRICS_LOGIN):
        return None
    listener = listener_of("", config)
    if listener.access is not Access.LOGIN:
        raise RuntimeError(f"{METRICS_LOGIN}: {listener.why}")
    return BasicLogins(callers_of(context, control, listener), Attempts())

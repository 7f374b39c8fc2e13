"""The login of a user at the broker, for one client of the http process.

The broker sees connections of the http process come from this host. So each login is announced to
control over the link that only the broker's own processes have: a failure counts for the address of
the client, and the user's ACLs apply to that address.
"""

import time
from collections.abc import Callable, Sequence
from typing import Final

from kbroker.http.console.scram_client import NAMES, ScramClient
from kbroker.http.control_view import ControlView, NoAnswer
from kbroker.ipc.login_messages import FindScramCredential, LoginForClient
from kbroker.ipc.messages import SCRAM_MECHANISMS

CHECK_S: Final = 2.0
"""Maximum time for which a deleted user, or one whose password has changed, still has access."""


class UserLogin:
    """Runs in: http. Owner: a Caller. Thread-safe. listener: its name. mechanisms: those that the
    listener offers, the preferred ones first. peer: address of the client."""

    def __init__(
        self,
        control: ControlView,
        listener: str,
        mechanisms: Sequence[str],
        peer: str,
        client: ScramClient,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._control = control
        self._listener = listener
        self._offered = tuple(SCRAM_MECHANISMS[each].number for each in mechanisms)
        self._peer = peer
        self._client = client
        self._clock_s = clock_s
        self._number = 0  # of the mechanism, once it is chosen
        self._checked_s = clock_s()
        self._has_changed = False

    @property
    def user(self) -> str:
        """Name of the user."""
        return self._client.user

    @property
    def mechanism(self) -> str:
        """SCRAM mechanism of the user; empty before the first login."""
        return self._client.mechanism

    def begin(self, host: str, port: int) -> ScramClient:
        """A login begins on a connection from this address. Raises NoAnswer."""
        offered = (self._number,) if self._number else self._offered
        own = host.removeprefix("::ffff:")
        message = LoginForClient(self._listener, own, port, self._peer, self.user, offered)
        self._number = self._control.ask(message)
        self._client.mechanism = NAMES[self._number]
        return self._client

    def has_changed(self) -> bool:
        """Whether the broker has another credential of the user than at the login, or none. False
        while control does not answer: the broker serves no request then."""
        now = self._clock_s()
        if self._number and not self._has_changed and now - self._checked_s >= CHECK_S:
            self._checked_s = now
            message = FindScramCredential(self.user, self._number)
            try:
                self._has_changed = not self._client.fits(self._control.ask(message))
            except NoAnswer:
                pass
        return self._has_changed

"""Logins of users for clients of the http process: announced to control, and checked again."""

from typing import Any

import pytest

from kbroker.http.console.scram_client import ScramClient
from kbroker.http.console.user_login import CHECK_S, UserLogin
from kbroker.http.control_view import NoAnswer
from kbroker.ipc.login_messages import FindScramCredential, LoginForClient
from kbroker.ipc.messages import ScramCredential
from tests.http.console.scram_logins import credential, log_in

BOTH = ("SCRAM-SHA-512", "SCRAM-SHA-256")
STORED = credential("SCRAM-SHA-256", "secret")


class Scene:
    """The login of ann, for a client at 192.0.2.1, and control, which has `stored` of her; None: it
    does not answer."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.stored: ScramCredential | None = STORED
        self.chosen = 1
        self.asked: list[object] = []
        control: Any = self
        client = ScramClient("", "ann", "secret")
        self.login = UserLogin(control, "SASL", BOTH, "192.0.2.1", client, lambda: self.now_s)

    def ask(self, message: object) -> Any:
        self.asked.append(message)
        if self.stored is None:
            raise NoAnswer("restarting")
        return self.chosen if isinstance(message, LoginForClient) else self.stored


@pytest.fixture
def scene() -> Scene:
    """After the first login."""
    made = Scene()
    log_in(made.login.begin("127.0.0.1", 5000), STORED)
    return made


def test_control_learns_for_whom_a_connection_logs_in_and_chooses_the_mechanism(scene: Scene) -> None:
    assert scene.login.user == "ann"
    assert scene.asked == [LoginForClient("SASL", "127.0.0.1", 5000, "192.0.2.1", "ann", (2, 1))]
    client = scene.login.begin("::ffff:127.0.0.1", 5001)
    assert client.mechanism == "SCRAM-SHA-256"
    log_in(client, STORED)
    again = LoginForClient("SASL", "127.0.0.1", 5001, "192.0.2.1", "ann", (1,))
    assert scene.asked[1:] == [again], "the salted password is of one mechanism"


def test_a_login_that_cannot_be_announced_does_not_begin(scene: Scene) -> None:
    scene.stored = None
    with pytest.raises(NoAnswer):
        scene.login.begin("127.0.0.1", 5001)


@pytest.mark.parametrize(
    "changed",
    [credential("SCRAM-SHA-256", "other"), credential("SCRAM-SHA-256", "secret", b"another salt 123")],
)
def test_a_changed_credential_is_noticed_within_seconds(scene: Scene, changed: ScramCredential) -> None:
    scene.now_s += CHECK_S
    assert not scene.login.has_changed()
    scene.stored = changed
    assert not scene.login.has_changed(), "it was checked just now"
    scene.now_s += CHECK_S
    assert scene.login.has_changed()
    scene.stored = STORED
    scene.now_s += CHECK_S
    assert scene.login.has_changed(), "for good: another user may have the name now"
    assert scene.asked[1:] == [FindScramCredential("ann", 1)] * 2


def test_a_login_lasts_while_control_restarts(scene: Scene) -> None:
    scene.stored = None
    scene.now_s += CHECK_S
    assert not scene.login.has_changed()
    scene.stored = credential("SCRAM-SHA-256", "other")
    scene.now_s += CHECK_S
    assert scene.login.has_changed()

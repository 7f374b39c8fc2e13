"""The requests of a login, in their order: nothing is served before it, and a session ends."""

import asyncio
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.ipc.fds import Accepted
from kbroker.ipc.link import LinkClosed
from kbroker.ipc.login_messages import LoginSucceeded, LoginTurn
from kbroker.net.connections.connection import State
from kbroker.net.security import logins as module
from kbroker.net.security.login import Login
from kbroker.net.security.logins import REAUTHENTICATE_NS
from kbroker.net.security.sasl_exchange import PlainExchange
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.frame import SIZE, encode_response
from kbroker.protocol.messages.api_versions import ApiVersionsResponse
from tests.net.security.login_scene import (
    ATTEMPT,
    METADATA,
    REAUTH,
    SETTINGS,
    VERSIONS,
    Scene,
    Timer,
    handshake,
    shown,
    token,
)

Make = Callable[..., Scene]


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Make:
    def make(**settings: str) -> Scene:
        made = Scene(**settings)

        def loop() -> Any:
            real = asyncio.events.get_running_loop()

            def call_later(*call: Any) -> Timer:
                made.timers.append(Timer(*call))
                return made.timers[-1]

            return SimpleNamespace(create_task=real.create_task, call_later=call_later)

        async def sleep(seconds: float) -> None:
            made.slept.append(seconds)

        monkeypatch.setattr(asyncio, "get_running_loop", loop)
        monkeypatch.setattr(module, "asyncio", SimpleNamespace(get_running_loop=loop, sleep=sleep))
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic_ns=lambda: made.now_ns, time=time.time))
        return made

    return make


def test_the_right_password_lets_its_user_in_and_nothing_is_served_before(scene: Make) -> None:
    case = scene()
    assert case.take(handshake()) == [True]
    assert not case.is_served
    assert case.take(token()) == [True]
    assert case.is_served
    assert (case.connection.user, case.known) == ("alice", ["alice"])
    assert (case.answer().error_code, case.answer().session_lifetime_ms) == (0, 0)
    assert case.audited == [("PLAIN", "alice", True)]
    assert case.sent == [ATTEMPT, LoginSucceeded("10.0.0.1", "alice")]
    assert case.take(METADATA) == [False]
    assert (case.timers, case.refused, case.closed) == ([], [], [])


@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("nobody", "secret"), ("bob", "secret")])
def test_a_wrong_password_is_answered_after_the_delay_and_closes(
    scene: Make, user: str, password: str
) -> None:
    case = scene()
    case.log_in(user, password)
    assert not case.is_served
    assert (len(case.replies), case.refused, case.known) == (1, [], [])
    assert [timer.delay_s for timer in case.timers] == [0.25]
    case.timers[0].fire()
    assert case.answer().error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert len(case.refused) == 1
    assert case.audited == [("PLAIN", user, False)]
    assert LoginSucceeded("10.0.0.1", user) not in case.sent


def test_a_client_that_has_gone_gets_no_answer(scene: Make) -> None:
    case = scene()
    case.log_in(password="wrong")
    case.connection.state = State.CLOSED
    case.timers[0].fire()
    assert (len(case.replies), case.refused) == (1, [])


@pytest.mark.parametrize("before", [(), (VERSIONS,), (handshake(),)])
def test_any_other_request_closes_before_a_login(scene: Make, before: tuple[bytes, ...]) -> None:
    case = scene()
    case.take(*before)
    assert case.take(METADATA) == [True]
    assert len(case.refused) == 1
    assert not case.is_served


def test_a_token_without_a_handshake_closes(scene: Make) -> None:
    case = scene()
    assert case.take(token()) == [True]
    assert (len(case.refused), case.replies, case.sent) == (1, [], [])


def test_versions_are_reported_once_and_before_the_handshake(scene: Make) -> None:
    case = scene()
    assert case.take(VERSIONS) == [False]
    refused = encode_response(ApiKey.API_VERSIONS, 0, 1, ApiVersionsResponse(error_code=35))
    case.logins.reported_versions(case.connection, refused)
    assert case.take(VERSIONS) == [False], "a version that is not known may be asked for first"
    reported = encode_response(ApiKey.API_VERSIONS, 0, 1, ApiVersionsResponse())
    case.logins.reported_versions(case.connection, reported)
    assert case.take(VERSIONS) == [True]
    assert len(case.refused) == 1


@pytest.mark.parametrize("frame", [handshake(), VERSIONS])
def test_a_request_that_belongs_before_the_handshake_is_an_illegal_state_after_it(
    scene: Make, frame: bytes
) -> None:
    case = scene()
    assert case.take(handshake(), frame) == [True, True]
    assert case.refused == []
    case.timers[0].fire()
    error = int.from_bytes(case.replies[-1][8:10], "big")
    assert (error, len(case.refused)) == (ErrorCode.ILLEGAL_SASL_STATE, 1)


def test_a_mechanism_that_is_not_enabled_is_refused_with_those_that_are(scene: Make) -> None:
    case = scene(**{"sasl.enabled.mechanisms": "SCRAM-SHA-256"})
    case.take(handshake())
    assert case.audited == [("PLAIN", "", False)]
    case.timers[0].fire()
    assert case.handshake_error() == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert case.logins.enabled("SASL") == ("SCRAM-SHA-256",)
    assert len(case.refused) == 1


def test_tokens_come_bare_after_the_first_handshake_version(scene: Make) -> None:
    case = scene()
    case.take(handshake(version=0), shown("alice", "secret"))
    assert case.replies[-1] == SIZE.pack(0)
    assert case.is_served
    wrong = scene()
    wrong.take(handshake(version=0), shown("alice", "wrong"))
    wrong.timers[0].fire()
    assert (len(wrong.replies), len(wrong.refused), wrong.is_served) == (1, 1, False)


@pytest.mark.parametrize("version", [0, 1])
def test_no_answer_of_a_login_is_throttled(scene: Make, version: int) -> None:
    """It could not report that, and a bare token has no API."""
    case = scene(**{REAUTH: "3000"})
    for _ in range(2):
        case.take(handshake(version=version), token() if version else shown("alice", "secret"))
        assert case.is_served
        case.timers[-1].fire()
    assert (len(case.replies), case.throttled) == (4, [])


def test_versions_of_requests_that_are_not_known_close(scene: Make) -> None:
    newer = [bytearray(frame) for frame in (handshake(), token())]
    newer[0][2:4], newer[1][2:4] = b"\0\2", b"\0\3"
    case = scene()
    case.take(bytes(newer[0]))
    assert (len(case.refused), case.replies) == (1, [])
    case = scene()
    case.take(handshake(), bytes(newer[1]))
    assert (len(case.refused), case.is_served) == (1, False)


def test_guessed_passwords_wait_or_are_refused_unseen(scene: Make) -> None:
    case = scene()
    case.turn = LoginTurn(7.5, "10.0.0.1")
    case.log_in()
    assert (case.slept, case.is_served) == ([7.5], True)
    case = scene()
    case.turn = LoginTurn(None, "10.0.0.1")
    case.log_in()
    assert (case.slept, case.is_served) == ([], False)
    assert case.sent == [ATTEMPT]


def test_a_client_that_leaves_while_its_guess_waits_is_not_logged_in(
    scene: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = scene()
    case.turn = LoginTurn(7.5, "10.0.0.1")

    async def leave(_: float) -> None:
        case.connection.state = State.CLOSED

    monkeypatch.setattr(vars(module)["asyncio"], "sleep", leave)
    case.log_in()
    assert (case.known, case.sent) == ([], [ATTEMPT])


def test_a_login_ends_with_the_link_to_control(scene: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    case = scene()

    async def gone(_: object) -> LoginTurn:
        raise LinkClosed("gone")

    monkeypatch.setattr(case.logins._control, "attempt_login", gone)
    case.log_in()
    assert (case.closed, case.audited) == (["control went away during a login"], [])
    assert (case.timers, case.refused, case.is_served) == ([], [], False)


@pytest.mark.parametrize("active", [True, False])
def test_quotas_begin_with_the_login(scene: Make, monkeypatch: pytest.MonkeyPatch, active: bool) -> None:
    case, started = scene(), list[object]()
    quotas = SimpleNamespace(active=active, start=started.append)
    monkeypatch.setattr(case.logins._process, "quotas", quotas)
    case.log_in()
    assert started == ([case.connection] if active else [])


def test_mechanisms_that_the_broker_does_not_have_are_not_offered(scene: Make) -> None:
    case = scene(**{"sasl.enabled.mechanisms": "GSSAPI,PLAIN"})
    assert case.logins.enabled("SASL") == ("PLAIN",)


@pytest.mark.parametrize(("password", "known"), [("secret", ["192.0.2.9"]), ("wrong", [])])
def test_a_login_of_the_http_process_is_one_of_its_client(
    scene: Make, password: str, known: list[str]
) -> None:
    case = scene()
    case.turn = LoginTurn(0, "192.0.2.9")
    case.log_in(password=password)
    assert case.hosts == known, "its ACLs are those of the address"
    assert case.audited_hosts == ["192.0.2.9"]
    assert case.sent[1:] == [LoginSucceeded(host, "alice") for host in known]
    assert case.connection.accepted == Accepted(7, 0, "192.0.2.9", 5000)


# --- sessions ------------------------------------------------------------------------------------------------


def test_an_expired_session_serves_nothing_but_a_login(scene: Make) -> None:
    case = scene(**{REAUTH: "3000"})
    case.log_in()
    assert case.answer().session_lifetime_ms == 3000
    (timer,) = case.timers
    assert timer.delay_s == 3
    assert case.take(METADATA) == [False]
    timer.fire()
    assert not case.is_served
    assert case.take(METADATA) == [True]
    assert len(case.closed) == 1


def test_a_reauthenticated_client_continues(scene: Make) -> None:
    case = scene(**{REAUTH: "3000"})
    case.log_in()
    case.timers[0].fire()
    case.log_in()
    assert case.is_served
    assert case.take(METADATA) == [False]
    assert (case.closed, case.refused) == ([], [])
    assert len(case.timers) == 2, "the next session ends, too"


def test_a_login_before_the_end_takes_the_place_of_the_first(scene: Make) -> None:
    case = scene(**{REAUTH: "3000"})
    case.log_in()
    case.take(handshake())
    assert not case.is_served
    case.take(token())
    first, second = case.timers
    assert (first.cancelled, second.cancelled, case.is_served) == (True, False, True)
    case.connection.on_end()
    assert second.cancelled, "as the connection ends"


def test_a_reauthentication_as_another_user_is_refused(scene: Make) -> None:
    case = scene(**{REAUTH: "3000"})
    case.log_in()
    case.log_in("bob", "bob")
    assert (case.connection.user, case.is_served) == ("alice", False)
    case.timers[-1].fire()
    assert case.answer().error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "Cannot change principals" in case.answer().error_message
    assert len(case.refused) == 1


def test_a_reauthentication_by_another_mechanism_is_refused(scene: Make) -> None:
    case = scene(**{REAUTH: "3000"})
    case.log_in()
    case.take(handshake("SCRAM-SHA-256"), token())
    assert not case.is_served
    case.timers[-1].fire()
    assert "is not supported for re-authentication" in case.answer().error_message
    assert len(case.refused) == 1


def test_a_client_does_not_log_in_again_within_a_second(scene: Make) -> None:
    case = scene(**{REAUTH: "3000"})
    case.log_in()
    case.log_in()
    case.now_ns += REAUTHENTICATE_NS - 1
    assert case.take(handshake()) == [False], "an ordinary request, which is refused as one"
    case.now_ns += 1
    assert case.take(handshake()) == [True]


def test_without_a_limit_no_reauthentication_is_required(scene: Make) -> None:
    case = scene()
    case.log_in()
    assert case.take(handshake()) == [False]
    assert case.is_served


@pytest.mark.parametrize(
    ("limit", "left_ms", "lifetime"), [("0", 5000, 5000), ("3000", 5000, 3000), ("9000", 5000, 5000)]
)
def test_a_session_ends_with_its_token_or_at_the_limit(
    scene: Make, monkeypatch: pytest.MonkeyPatch, limit: str, left_ms: int, lifetime: int
) -> None:
    case = scene(**{REAUTH: limit})
    monkeypatch.setattr(PlainExchange, "left_ms", lambda _: left_ms)
    case.log_in()
    assert case.answer().session_lifetime_ms == lifetime
    assert [timer.delay_s for timer in case.timers] == [lifetime / 1000]


def test_changed_passwords_hold_for_the_next_login(scene: Make) -> None:
    case = scene()
    case.log_in()
    jaas = SETTINGS["listener.name.sasl.plain.sasl.jaas.config"].replace("secret", "other")
    case.logins.change({"listener.name.sasl.plain.sasl.jaas.config": jaas})
    case.connection.login, case.connection.state = Login(), State.AUTHENTICATING
    case.log_in(password="other")
    assert case.is_served


def test_a_login_is_refused_while_the_users_cannot_be_read(
    scene: Make, caplog: pytest.LogCaptureFixture
) -> None:
    """A malformed text left logins without an answer, each with a traceback."""
    case = scene()
    case.logins.change({"listener.name.sasl.plain.sasl.jaas.config": 'user_alice="secret"'})
    case.log_in()
    assert not case.is_served
    case.timers[0].fire()
    assert case.answer().error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "listener SASL has no users of PLAIN: JAAS config" in caplog.text
    assert "secret" not in caplog.text

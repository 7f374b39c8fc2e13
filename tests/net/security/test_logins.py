"""The requests of a login, in their order: nothing is served before it, and a session ends."""

import asyncio
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.config.broker import BrokerConfig
from kbroker.ipc.login_messages import AttemptLogin, LoginSucceeded
from kbroker.net.connections.connection import State
from kbroker.net.rows import Connection as ConnectionRow
from kbroker.net.rows import Flag
from kbroker.net.security import logins as module
from kbroker.net.security.login import Login
from kbroker.net.security.logins import REAUTHENTICATE_NS, Logins
from kbroker.net.security.sasl_exchange import PlainExchange
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import decode
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.frame import SIZE, encode_request, encode_response, parse_response
from kbroker.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kbroker.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

ROW = 1
SERVED = Flag.AUTHENTICATED | Flag.FETCH
SETTINGS = {
    "log.dirs": "/d",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.sasl.plain.sasl.jaas.config": (
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret" user_bob="bob";'
    ),
    "connection.failed.authentication.delay.ms": "250",
}
REAUTH = "listener.name.sasl.plain.connections.max.reauth.ms"


class Timer:
    """A call of the loop that a test lets happen."""

    def __init__(self, delay_s: float, step: Callable[..., object], *arguments: Any) -> None:
        self.delay_s = delay_s
        self.cancelled = False
        self._step, self._arguments = step, arguments

    def cancel(self) -> None:
        self.cancelled = True

    def fire(self) -> None:
        if not self.cancelled:
            self._step(*self._arguments)


class Scene:
    """One connection of a SASL listener, its network process and control."""

    def __init__(self, **settings: str) -> None:
        self.now_ns = 10 * REAUTHENTICATE_NS
        self.rows = ConnectionRow.table(2)
        self.known: list[str] = []
        self.audited: list[tuple[str, str, bool]] = []
        self.replies: list[bytes] = []
        self.refused: list[str] = []
        self.closed: list[str] = []
        self.timers: list[Timer] = []
        self.sent: list[object] = []
        self.wait_s: float | None = 0
        self.slept: list[float] = []
        self.connection: Any = SimpleNamespace(
            row=ROW, state=State.AUTHENTICATING, user="ANONYMOUS", token_authenticated=False, login=Login(),
            listener=SimpleNamespace(listener="SASL"), accepted=SimpleNamespace(host="10.0.0.1"), api_key=-1,
            on_end=None,
        )  # fmt: skip
        audit = SimpleNamespace(login=lambda _, by, user, why: self.audited.append((by, user, not why)))
        process: Any = SimpleNamespace(
            config=BrokerConfig({**SETTINGS, **settings}),
            context=SimpleNamespace(connections=self.rows),
            access=SimpleNamespace(know=lambda it: self.known.append(it.user), audit=audit),
            quotas=SimpleNamespace(active=False),
            counts=SimpleNamespace(begun=lambda *_: None),
            answers=SimpleNamespace(send=lambda _, parts: self.replies.extend(parts)),
            refuse=lambda _, why: self.refused.append(why),
            close=lambda _, why: self.closed.append(why),
        )
        control: Any = SimpleNamespace(attempt_login=self._attempt, send=self.sent.append)
        self.logins = Logins(process, control)

    async def _attempt(self, attempt: AttemptLogin) -> float | None:
        self.sent.append(attempt)
        return self.wait_s

    def take(self, *frames: bytes) -> list[bool]:
        """Whether each frame was one of a login."""

        async def body() -> list[bool]:
            taken = []
            for frame in frames:
                taken.append(self.logins.takes(self.connection, frame))
                await self.logins._background.wait(10)
            return taken

        return asyncio.run(body())

    @property
    def is_served(self) -> bool:
        """Whether kernels serve the connection."""
        flags = int(self.rows[ROW, ConnectionRow.FLAGS]) & SERVED
        assert flags in (0, SERVED)
        assert bool(flags) <= (self.connection.state is State.READY)
        return bool(flags)

    def answer(self) -> Any:
        """The last token's."""
        at = SIZE.size
        frame = self.replies[-1][at:]
        _, body = parse_response(frame, ApiKey.SASL_AUTHENTICATE, 2)
        return decode(SaslAuthenticateResponse, 2, frame, body)[0]

    def handshake_error(self) -> int:
        frame = self.replies[-1][SIZE.size :]
        _, body = parse_response(frame, ApiKey.SASL_HANDSHAKE, 1)
        return int(decode(SaslHandshakeResponse, 1, frame, body)[0].error_code)

    def log_in(self, user: str = "alice", password: str = "secret") -> None:
        self.take(handshake(), token(user, password))


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


def handshake(mechanism: str = "PLAIN", version: int = 1) -> bytes:
    request = SaslHandshakeRequest(mechanism)
    return encode_request(ApiKey.SASL_HANDSHAKE, version, 1, "c", request)[SIZE.size :]


def shown(user: str, password: str) -> bytes:
    return f"\0{user}\0{password}".encode()


def token(user: str = "alice", password: str = "secret") -> bytes:
    request = SaslAuthenticateRequest(shown(user, password))
    return encode_request(ApiKey.SASL_AUTHENTICATE, 2, 1, "c", request)[SIZE.size :]


VERSIONS = encode_request(ApiKey.API_VERSIONS, 0, 1, "c", ApiVersionsRequest())[SIZE.size :]
METADATA = encode_request(ApiKey.METADATA, 9, 1, "c", MetadataRequest())[SIZE.size :]


def test_the_right_password_lets_its_user_in_and_nothing_is_served_before(scene: Make) -> None:
    case = scene()
    assert case.take(handshake()) == [True]
    assert not case.is_served
    assert case.take(token()) == [True]
    assert case.is_served
    assert (case.connection.user, case.known) == ("alice", ["alice"])
    assert (case.answer().error_code, case.answer().session_lifetime_ms) == (0, 0)
    assert case.audited == [("PLAIN", "alice", True)]
    assert case.sent == [AttemptLogin("10.0.0.1", "alice"), LoginSucceeded("10.0.0.1", "alice")]
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
    case.wait_s = 7.5
    case.log_in()
    assert (case.slept, case.is_served) == ([7.5], True)
    case = scene()
    case.wait_s = None
    case.log_in()
    assert (case.slept, case.is_served) == ([], False)
    assert case.sent == [AttemptLogin("10.0.0.1", "alice")]


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

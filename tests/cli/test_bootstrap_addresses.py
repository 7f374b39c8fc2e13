"""Several bootstrap addresses: the command uses the first that answers, and none takes the whole
timeout."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any

import confluent_kafka.admin
import kafka.admin
import pytest

from kbroker.cli import connection
from kbroker.cli.connection import Connection
from kbroker.cli.failures import CommandFailed, Unreachable, UsageFailed
from kbroker.cli.listener_probe import SILENT, WANTS_TLS

START_S = 100.0
SLOW, SLOW_S = "slow", 6
"""A listener that needs so long for its first answer."""
MANY_RECORDS, CONNECTS_S = "many records", 20
"""A name with so many addresses that do not answer that the timeout of each adds up to this."""
TLS = {"security.protocol": "SASL_SSL"}
NO_TLS = ("_SSL", "ssl://a:1/bootstrap: SSL handshake failed: wrong version number")
WRONG_PASSWORD = ("_AUTHENTICATION", "SASL authentication error: Authentication failed")


class Hosts:
    """Listeners by their ports, and the time, which passes only while a probe waits for one."""

    def __init__(self, **refusals: str) -> None:
        self.refusals = refusals
        self.now_s = START_S
        self.probed: list[str] = []
        self.given_s: list[float] = []

    def monotonic(self) -> float:
        return self.now_s

    def refusal(self, host: str, _port: int, deadline: float) -> str:
        self.probed.append(host)
        self.given_s.append(deadline - self.now_s)
        found = self.refusals[host]
        if found == MANY_RECORDS:
            self.now_s += CONNECTS_S
            raise TimeoutError("timed out")
        if found == SLOW and deadline - self.now_s >= SLOW_S:
            self.now_s += SLOW_S
            return ""
        if found in (SILENT, SLOW):
            self.now_s = deadline
            return SILENT
        return found

    def create_connection(self, address: tuple[str, int], _timeout_s: float) -> AbstractContextManager[Any]:
        self.probed.append(f"again {address[0]}")
        closed = nullcontext()
        closed.close = lambda: None  # type: ignore[attr-defined]
        return closed


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Hosts]:
    """Puts listeners in the place of real ones."""

    def put(**refusals: str) -> Hosts:
        made = Hosts(**refusals)
        monkeypatch.setattr(connection, "time", made)
        monkeypatch.setattr(connection, "refusal", made.refusal)
        monkeypatch.setattr(connection, "socket", made)
        return made

    return put


def test_a_silent_address_leaves_time_for_the_next(
    hosts: Callable[..., Hosts], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = hosts(a=SILENT, b=SILENT, c="")
    given: dict[str, Any] = {}
    monkeypatch.setattr(kafka.admin, "KafkaAdminClient", lambda **settings: given.update(settings))
    broker = Connection("a:1, b:2,c:3", {}, 9)
    broker.kafka_python_admin()
    assert (found.now_s, found.probed) == (START_S + 6, ["a", "b", "c"])
    assert given["bootstrap_servers"] == ["c:3"]
    broker.reach()
    assert (found.now_s, found.probed[3:]) == (START_S + 6, ["again c"])


def test_the_reasons_of_all_addresses_are_named(hosts: Callable[..., Hosts]) -> None:
    found = hosts(a=WANTS_TLS, b=SILENT)
    with pytest.raises(Unreachable) as failed:
        Connection("a:1,b:2", {}, 8).reach()
    assert failed.value.message == f"a:1 {WANTS_TLS}; b:2 {SILENT}"
    assert found.now_s == START_S + 8


@pytest.mark.parametrize(("addresses", "named"), [("", "''"), (",", "''"), ("a:1,b:x", "'b:x'")])
def test_an_address_that_is_none_is_refused_before_any_is_tried(
    hosts: Callable[..., Hosts], addresses: str, named: str
) -> None:
    found = hosts(a="")
    with pytest.raises(UsageFailed, match=f"bootstrap {named}: expected host:port"):
        Connection(addresses, {}, 8).reach()
    assert found.probed == []
    Connection("a:1,", {}, 8).reach()


def test_a_name_of_many_addresses_leaves_time_for_the_next(hosts: Callable[..., Hosts]) -> None:
    found = hosts(a=MANY_RECORDS, b="")
    Connection("a:1,b:2", {}, 15).reach()
    assert found.given_s == [7.5, 1.0]


def test_the_shares_of_a_short_timeout_do_not_exceed_it(hosts: Callable[..., Hosts]) -> None:
    found = hosts(a=SILENT, b=SILENT)
    with pytest.raises(Unreachable):
        Connection("a:1,b:2", {}, 0.5).reach()
    assert found.now_s == START_S + 0.5


def test_a_slow_address_gets_the_time_that_the_others_leave(hosts: Callable[..., Hosts]) -> None:
    found = hosts(a=SLOW, b=WANTS_TLS, c=WANTS_TLS)
    Connection("a:1,b:2,c:3", {}, 15).reach()
    assert (found.probed, found.given_s) == (["a", "b", "c", "a"], [5, 5, 10, 10])
    assert found.now_s == START_S + 5 + SLOW_S


class Logins:
    """Clients of confluent-kafka in the place of real ones: `errors` by bootstrap address, silence
    without any, and an answer of the address in `well`."""

    def __init__(self, found: Hosts, well: str = "", **errors: tuple[str, str]) -> None:
        self.found, self.well, self.errors = found, well, errors
        self.tried: list[str] = []

    def __call__(self, settings: Mapping[str, Any], logger: object) -> "Login":
        return Login(self, settings["bootstrap.servers"], settings["error_cb"])


class Login:
    """One of them. It is its own pending answer."""

    def __init__(self, logins: Logins, address: str, note: Callable[[object], None]) -> None:
        self.logins, self.address, self.note = logins, address, note
        self.polled = False
        logins.tried.append(address)

    def describe_cluster(self, request_timeout: float) -> "Login":
        return self

    def done(self) -> bool:
        return self.polled and self.address == self.logins.well

    def exception(self) -> None:
        """None: the answer is no error."""

    def poll(self, timeout_s: float) -> None:
        self.polled = True
        self.logins.found.now_s += timeout_s
        if error := self.logins.errors.get(self.address.partition(":")[0]):
            self.note(SimpleNamespace(name=lambda: error[0], str=lambda: error[1]))


@pytest.fixture
def logins(hosts: Callable[..., Hosts], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Logins]:
    """Puts clients in the place of real ones."""

    def put(well: str = "", **errors: tuple[str, str]) -> Logins:
        made = Logins(hosts(), well, **errors)
        monkeypatch.setattr(confluent_kafka.admin, "AdminClient", made)
        return made

    return put


def test_an_address_without_tls_is_followed_by_the_next(logins: Callable[..., Logins]) -> None:
    found = logins("b:2", a=NO_TLS)
    Connection("a:1,b:2", TLS, 15).reach()
    assert found.tried == ["a:1", "b:2"]


def test_the_first_refusal_is_named_if_no_address_answers(logins: Callable[..., Logins]) -> None:
    found = logins(a=NO_TLS, b=("_SSL", "certificate verify failed"))
    with pytest.raises(CommandFailed) as failed:
        Connection("a:1,b:2", TLS, 15).reach()
    assert failed.value.message == f"no TLS connection: {NO_TLS[1]}"
    assert found.tried == ["a:1", "b:2"]


def test_a_wrong_password_is_not_tried_at_the_next_address(logins: Callable[..., Logins]) -> None:
    found = logins("b:2", a=WRONG_PASSWORD)
    with pytest.raises(CommandFailed, match="refuses these credentials"):
        Connection("a:1,b:2", TLS, 15).reach()
    assert found.tried == ["a:1"]


def test_a_silent_login_names_no_time_that_it_did_not_wait(logins: Callable[..., Logins]) -> None:
    found = logins("b:2")
    Connection("a:1,b:2", TLS, 4).reach()
    assert found.found.now_s == pytest.approx(START_S + 2, abs=0.1)
    with pytest.raises(Unreachable) as failed:
        Connection("a:1,c:3", TLS, 4).reach()
    assert failed.value.message == "; ".join(
        f"no answer of {each}: is SASL_SSL the protocol of this listener?" for each in ("a:1", "c:3")
    )

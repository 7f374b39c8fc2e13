"""Several bootstrap addresses: the command uses the first that answers, and none takes the whole
timeout."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import kafka.admin
import pytest

from kbroker.cli import connection
from kbroker.cli.connection import Connection
from kbroker.cli.failures import Unreachable, UsageFailed
from kbroker.cli.listener_probe import SILENT, WANTS_TLS

START_S = 100.0


class Hosts:
    """Listeners by their ports, and the time, which passes only while a probe waits for one."""

    def __init__(self, **refusals: str) -> None:
        self.refusals = refusals
        self.now_s = START_S
        self.probed: list[str] = []

    def monotonic(self) -> float:
        return self.now_s

    def refusal(self, host: str, _port: int, deadline: float) -> str:
        self.probed.append(host)
        found = self.refusals[host]
        if found == SILENT:
            self.now_s = deadline
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

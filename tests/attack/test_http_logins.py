"""Logins at the http port and the registry of a running broker: each counts for the address of its
client, and lasts no longer than the user's credential."""

import base64
import http.client
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from tests.attack.processes import until
from tests.compat.registry_requests import url_of
from tests.conftest import BrokerFactory
from tests.http.console.service import Service
from tests.peer.kbroker_node import KBroker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

STRANGER, NEIGHBOUR, HOST = "127.0.0.2", "127.0.0.3", "127.0.0.1"
GUESSES = 30
"""More than the broker lets an address wait for: 5 at once, then one a second for ten seconds."""
PASSWORD = "secret"
ENDS_S = 60.0
"""Within this time, on a busy host, a stream ends after a change that is noticed in two seconds."""


class Broker:
    """A broker with the users ann (SCRAM-SHA-256) and bob (SCRAM-SHA-512)."""

    def __init__(self, node: KBroker, audit: Path) -> None:
        self.node = node
        self.audit = audit
        found = re.findall(r"bootstrap=(\S+)", node.log_file.read_text())[-1]
        self.plain, self.sasl = found.split(",")
        self.admin = AdminClient({"bootstrap.servers": self.plain})
        self.console, self.registry = Service(node).address, url_of(node).removeprefix("http://")
        for user, kind in (("ann", ScramMechanism.SCRAM_SHA_256), ("bob", ScramMechanism.SCRAM_SHA_512)):
            change = UserScramCredentialUpsertion(user, ScramCredentialInfo(kind, 4096), PASSWORD.encode())
            self.admin.alter_user_scram_credentials([change])[user].result(120)

    def ask(
        self, address: str, source: str, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        link = http.client.HTTPConnection(address, timeout=60, source_address=(source, 0))
        if body is not None:
            headers["Content-Type"] = "application/json"
        link.request(method, path, None if body is None else json.dumps(body), headers)
        answer = link.getresponse()
        found = answer.status, answer.headers, answer.read()
        link.close()
        return found

    def subjects(self, source: str, user: str, password: str = PASSWORD) -> int:
        """Status of a request to the registry."""
        login = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
        return self.ask(self.registry, source, "GET", "/subjects", Authorization=login)[0]

    def log_in(self, source: str, user: str) -> tuple[int, str]:
        """Status of a login to the console, and its cookie."""
        body = {"user": user, "password": PASSWORD}
        origin = {"Origin": f"http://{self.console}"}
        status, headers, _ = self.ask(self.console, source, "POST", "/api/login", body, **origin)
        return status, headers.get("Set-Cookie", "").partition(";")[0]


AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture
def broker(request: pytest.FixtureRequest, broker_factory: BrokerFactory, tmp_path: Path) -> Iterator[Broker]:
    """With the settings of the parameter, too."""
    audit = tmp_path / "audit"
    audit.mkdir()
    node = broker_factory(
        {
            "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
            "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
            "kbroker.http.listen": "0.0.0.0:0",
            "kbroker.schema.registry.listen": "0.0.0.0:0",
            "kbroker.audit.log.dir": str(audit),
            "kbroker.login.attempts.address.burst": "5",
            "kbroker.login.attempts.address.per.second": "1",
            **getattr(request, "param", {}),
        }
    )
    yield Broker(node, audit)
    assert "Traceback" not in node.logs(1 << 20)


def test_a_stranger_who_guesses_keeps_no_one_else_from_logging_in(broker: Broker) -> None:
    answered: list[int] = []

    def guess(number: int) -> None:
        answered.append(broker.subjects(STRANGER, f"user-{number}", "wrong"))

    with ThreadPoolExecutor(GUESSES) as threads:
        guessing = [threads.submit(guess, number) for number in range(GUESSES)]
        until(lambda: len(answered) >= 10)  # five were checked, and some did not get a turn
        assert not all(each.done() for each in guessing), "none waits any more"
        assert broker.subjects(NEIGHBOUR, "ann") == 200
        assert broker.log_in(NEIGHBOUR, "bob")[0] == 200
        client = {
            "bootstrap.servers": broker.sasl,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "ann",
            "sasl.password": PASSWORD,
        }
        own = AdminClient(client)
        assert own.list_topics(timeout=20).brokers
    assert set(answered) <= {401, 503}, "503: too late, after the longest wait"
    lines = [json.loads(line) for line in audit_lines(broker, GUESSES)]
    hosts = {
        (line["principal"].partition("-")[0], line["host"], line["allowed"])
        for line in lines
        if line["event"] == "login"
    }
    assert {host for user, host, _ in hosts if user == "User:user"} == {STRANGER}
    assert {("User:ann", NEIGHBOUR, True), ("User:bob", NEIGHBOUR, True), ("User:ann", HOST, True)} <= hosts


def test_logins_of_a_stranger_that_wait_leave_places_to_others(broker: Broker) -> None:
    """The console takes two of an address at a time."""
    with ThreadPoolExecutor(GUESSES) as threads:
        guessing = [threads.submit(broker.subjects, STRANGER, f"user-{each}", "wrong") for each in range(11)]
        until(lambda: sum(each.done() for each in guessing) >= 5)  # the others wait for up to six seconds
        waiting = [threads.submit(broker.log_in, STRANGER, "nobody") for _ in range(3)]
        until(lambda: any(each.done() for each in waiting))
        assert [each.result()[0] for each in waiting if each.done()] == [503]
        assert broker.log_in(NEIGHBOUR, "bob")[0] == 200
        assert not all(each.done() for each in waiting), "none waits any more"


def audit_lines(broker: Broker, refused: int) -> list[str]:
    """The audit log, once it has so many refused logins."""
    file = broker.audit / "audit.log"

    def complete() -> list[str]:
        lines = file.read_text().splitlines() if file.exists() else []
        events = [json.loads(line) for line in lines]
        failed = sum(
            each.get("count", 1) for each in events if each["event"] == "login" and not each["allowed"]
        )
        return lines if failed >= refused else []

    found: list[str] = until(complete)
    return found


@pytest.mark.parametrize("broker", [AUTHORIZER], indirect=True)
def test_acls_of_the_console_apply_to_the_address_of_the_browser(broker: Broker) -> None:
    broker.admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(120)
    allowed = AclBinding(
        ResourceType.TOPIC, "orders", ResourcePatternType.LITERAL, "User:ann", NEIGHBOUR,
        AclOperation.DESCRIBE, AclPermissionType.ALLOW,
    )  # fmt: skip
    broker.admin.create_acls([allowed])[allowed].result(120)
    for source, seen in ((NEIGHBOUR, 1), (STRANGER, 0), (HOST, 0)):
        status, cookie = broker.log_in(source, "ann")
        assert status == 200
        body = broker.ask(broker.console, source, "GET", "/api/topics", Cookie=cookie)[2]
        assert json.loads(body)["total"] == seen, source


def changed_password(broker: Broker) -> None:
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    change = UserScramCredentialUpsertion("ann", credential, b"another")
    broker.admin.alter_user_scram_credentials([change])["ann"].result(120)


def deleted_user(broker: Broker) -> None:
    change = UserScramCredentialDeletion("ann", ScramMechanism.SCRAM_SHA_256)
    broker.admin.alter_user_scram_credentials([change])["ann"].result(120)


@pytest.mark.parametrize("change", [changed_password, deleted_user])
def test_streams_and_sessions_end_with_the_credential(
    broker: Broker, change: Callable[[Broker], None]
) -> None:
    """Also of a page that watches and requests nothing."""
    cookies = {user: broker.log_in(NEIGHBOUR, user)[1] for user in ("ann", "bob")}
    ended: dict[str, float] = {}

    def watch(user: str) -> None:
        link = http.client.HTTPConnection(broker.console, timeout=60, source_address=(NEIGHBOUR, 0))
        link.request("GET", "/api/events", headers={"Cookie": cookies[user]})
        answer = link.getresponse()
        assert answer.readline() == b"retry: 2000\n"
        watching.release()
        while answer.readline():
            if stop.is_set():
                break
        else:
            ended[user] = time.monotonic()
        link.close()

    watching, stop = threading.Semaphore(0), threading.Event()
    threads = [threading.Thread(target=watch, args=(user,)) for user in cookies]
    for thread in threads:
        thread.start()
    for _ in threads:
        assert watching.acquire(timeout=60)
    assert broker.subjects(NEIGHBOUR, "ann") == 200
    change(broker)
    until(lambda: "ann" in ended, ENDS_S)
    until(lambda: broker.subjects(NEIGHBOUR, "ann") == 401, ENDS_S)
    status = {
        user: broker.ask(broker.console, NEIGHBOUR, "GET", "/api/topics", Cookie=cookie)[0]
        for user, cookie in cookies.items()
    }
    assert status == {"ann": 401, "bob": 200}
    assert "bob" not in ended
    stop.set()
    for thread in threads:
        thread.join()

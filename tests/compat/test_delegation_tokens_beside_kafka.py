"""Delegation tokens: kbroker answers every request about them as Apache Kafka does, lets the same
clients in by them, and Kafka's own tool and clients work with them."""

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages import create_delegation_token as cdt
from tests.compat import odd_logins
from tests.compat.acl_matrix import PASSWORD
from tests.compat.side_by_side import Lines, unlike
from tests.compat.token_talk import (
    HOUR_MS,
    MECHANISMS,
    MODULE,
    Conversation,
    TokenPeer,
    for_kafka,
    prepare,
    settings,
)
from tests.control.fakes import world
from tests.control.kraft.fill import TOKEN, exported, fill
from tests.peer.apache_kafka import QUICK_START, ApacheKafka
from tests.peer.kbroker_node import KBroker
from tests.peer.ports import free_port
from tests.peer.tools import dump_log, run_tool

pytestmark = [pytest.mark.kafka, pytest.mark.compat]
TOOL = "org.apache.kafka.tools.DelegationTokenCommand"


class Ports(NamedTuple):
    """Of one broker."""

    plain: int
    sasl: int


class Brokers(NamedTuple):
    """Both brokers, with the same users and ACLs."""

    kafka: Ports
    kbroker: Ports
    log: Path


def started(folder: Path, secret: str | None) -> Iterator[Brokers]:
    both = [Ports(free_port(), free_port()) for _ in range(2)]
    kafka = ApacheKafka(folder / "kafka", jvm=QUICK_START)
    kafka.port = both[0].plain
    broker = KBroker(folder / "kbroker", dict(settings(*both[1], secret)))
    try:
        kafka.start(for_kafka(settings(*both[0], secret), free_port()))
        broker.start()
        for ports in both:
            prepare(ports.plain)
        yield Brokers(both[0], both[1], broker.log_file)
    finally:
        broker.stop()
        kafka.stop()


@pytest.fixture(scope="module")
def brokers(kafka_jars: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """With a secret for tokens."""
    yield from started(tmp_path_factory.mktemp("tokens"), "s3cret")


@pytest.fixture(scope="module")
def without_secret(kafka_jars: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """Tokens are disabled."""
    yield from started(tmp_path_factory.mktemp("disabled"), None)


def held(ports: Ports, talk: Callable[[Conversation], None]) -> Lines:
    """The answers of one broker."""
    conversation = Conversation(*ports)
    try:
        talk(conversation)
    finally:
        conversation.close()
    return conversation.lines


def compared(brokers: Brokers, talk: Callable[[Conversation], None]) -> None:
    difference = unlike(held(brokers.kafka, talk), held(brokers.kbroker, talk))
    assert not difference, difference
    assert "Traceback" not in brokers.log.read_text()


def test_requests_on_an_open_listener_are_refused_the_same_way(brokers: Brokers) -> None:
    compared(brokers, lambda talk: talk.every_request("anonymous", talk.anonymous))


def test_disabled_tokens_are_refused_the_same_way(without_secret: Brokers) -> None:
    def talk(one: Conversation) -> None:
        for user in ("ann", "root"):
            one.every_request(user, one.users[user])
        one.create("ann", "bob")
        one.describe("ann", ())

    compared(without_secret, talk)


def test_owners_renewers_and_strangers_are_answered_the_same_way(brokers: Brokers) -> None:
    def talk(one: Conversation) -> None:
        one.every_request("ann", one.users["ann"])
        own = one.create("ann", renewers=("bob",))
        bobs = one.create("root", "bob")
        one.create("ann", "bob")
        one.create("ann", "ann", lifetime_ms=-1)
        one.create("eve", "bob")
        for user, owners in (
            ("ann", None), ("bob", None), ("eve", None), ("root", ("ann", "bob")), ("root", ("nobody",)),
            ("eve", ()), ("eve", ("ann",)), ("eve", ("bob",)),
        ):  # fmt: skip
            one.describe(user, owners)
        for user, hmac in (
            ("eve", own.hmac), ("root", bobs.hmac), ("bob", own.hmac), ("ann", own.hmac), ("ann", b""),
        ):  # fmt: skip
            one.renew(user, hmac)
            one.renew(user, hmac, 5000)
            one.expire(user, hmac, HOUR_MS)
        expired = one.expire("ann", own.hmac, -7)
        one.lines.append(
            ("it ended now", 0 <= expired.expiry_timestamp_ms - own.issue_timestamp_ms < HOUR_MS)
        )
        one.wait(lambda: own.token_id not in one.expiries())
        one.renew("ann", own.hmac)
        one.expire("eve", own.hmac)

    compared(brokers, talk)


def test_a_renewer_of_another_type_is_refused_the_same_way(brokers: Brokers) -> None:
    def talk(one: Conversation) -> None:
        for version, owner in ((1, None), (3, None), (3, "ann"), (3, "bob")):
            kind = None if owner is None else "User"
            renewers = [cdt.CreatableRenewers("Group", "g")]
            request = cdt.CreateDelegationTokenRequest(kind, owner, renewers, -1)
            one.note("other type", one.users["ann"].ask(ApiKey.CREATE_DELEGATION_TOKEN, version, request))
        request = cdt.CreateDelegationTokenRequest(None, "ann", [], -1)
        one.note("no type", one.users["ann"].ask(ApiKey.CREATE_DELEGATION_TOKEN, 3, request))

    compared(brokers, talk)


def test_periods_count_the_same_way(brokers: Brokers) -> None:
    def talk(one: Conversation) -> None:
        token = one.create("ann", lifetime_ms=48 * HOUR_MS)
        for change, period_ms in (
            (one.renew, -1), (one.renew, 0), (one.renew, HOUR_MS), (one.renew, 30 * HOUR_MS),
            (one.expire, HOUR_MS), (one.expire, 100 * HOUR_MS),
        ):  # fmt: skip
            answer = change("ann", token.hmac, period_ms)
            expiry_ms: int = answer.expiry_timestamp_ms
            one.wait(lambda expected=expiry_ms: one.expiries()[token.token_id] == expected)  # type: ignore[misc]
            hours = (answer.expiry_timestamp_ms - token.issue_timestamp_ms) / HOUR_MS
            one.lines.append((f"hours after {period_ms}", round(hours, 2)))

    compared(brokers, talk)


def test_an_expired_token_is_refused_the_same_way(brokers: Brokers) -> None:
    def talk(one: Conversation) -> None:
        token = one.create("ann", lifetime_ms=1000)
        time.sleep(1.1)
        for user in ("eve", "ann"):
            one.renew(user, token.hmac)
            one.expire(user, token.hmac, HOUR_MS)
            one.expire(user, token.hmac)
        one.wait(lambda: token.token_id not in one.expiries())
        one.renew("ann", token.hmac)

    compared(brokers, talk)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_login_by_token_makes_the_owner_of_the_client_and_no_more(brokers: Brokers, mechanism: str) -> None:
    def talk(one: Conversation) -> None:
        token = one.create("ann", renewers=("bob",))
        peer = TokenPeer(one.sasl_port, token, mechanism)
        one.note("login", peer.logged_in())
        assert peer.login.error_code == 0
        one.lines.append(("life", round(peer.login.session_lifetime_ms / HOUR_MS, 1)))
        one.topics("token", peer)
        one.topics("eve", one.users["eve"])
        one.every_request("token", peer)
        one.note("wrong hmac", TokenPeer(one.sasl_port, token, mechanism, b"wrong").logged_in())
        bobs = one.create("root", "bob")
        one.note("other's hmac", TokenPeer(one.sasl_port, bobs, mechanism, token.hmac).logged_in())
        one.expire("bob", token.hmac)
        one.wait(lambda: token.token_id not in one.expiries())
        one.note("no token any more", TokenPeer(one.sasl_port, token, mechanism).logged_in())
        one.topics("token that was", peer)
        peer.close()

    compared(brokers, talk)


def test_a_login_with_an_expired_token_is_refused_although_apache_kafka_keeps_it(
    brokers: Brokers,
) -> None:
    def talk(one: Conversation) -> None:
        token = one.create("ann", lifetime_ms=1000)
        time.sleep(1.1)
        assert token.token_id in one.expiries()
        one.lines.append(("login", TokenPeer(one.sasl_port, token).logged_in().error_code))

    assert held(brokers.kbroker, talk)[-1] == ("login", ErrorCode.SASL_AUTHENTICATION_FAILED)
    assert held(brokers.kafka, talk)[-1] == ("login", ErrorCode.NONE)


def test_logins_in_odd_orders_are_answered_the_same_way(brokers: Brokers) -> None:
    with ThreadPoolExecutor(2) as pool:
        kafkas, kbrokers = pool.map(odd_logins.held, (brokers.kafka.sasl, brokers.kbroker.sasl))
    assert not unlike(kafkas, kbrokers)


def properties(folder: Path, name: str, module: str, mechanism: str, words: str) -> str:
    file = folder / f"{name}.properties"
    file.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
        f"sasl.jaas.config={MODULE}.{module} required {words};\n"
    )
    return str(file)


def test_kafkas_tool_and_clients_work_with_tokens(brokers: Brokers, tmp_path: Path) -> None:
    server = ("--bootstrap-server", f"127.0.0.1:{brokers.kbroker.sasl}")

    def tokens(user: str, *words: str, check: bool = True) -> Any:
        words_of = f'username="{user}" password="{PASSWORD}"'
        config = properties(tmp_path, user, "plain.PlainLoginModule", "PLAIN", words_of)
        return run_tool(TOOL, *server, "--command-config", config, *words, check=check)

    made = tokens("ann", "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob").stdout
    token_id, hmac, *rest = made.splitlines()[-1].split()
    assert f"tokenId : {token_id}" in made
    assert rest[:2] == ["User:ann", "User:ann"]
    by_token = f'username="{token_id}" password="{hmac}" tokenauth="true"'
    config = properties(tmp_path, "token", "scram.ScramLoginModule", "SCRAM-SHA-512", by_token)

    def listed() -> str:
        tool = ("org.apache.kafka.tools.TopicCommand", *server, "--command-config", config, "--list")
        found = run_tool(*tool, check=False)
        return found.stdout + found.stderr

    assert "Exception" not in listed()
    refused = run_tool(TOOL, *server, "--command-config", config, "--describe", check=False)
    assert "Delegation Token requests are not allowed" in refused.stdout + refused.stderr
    assert token_id in tokens("bob", "--describe", "--owner-principal", "User:ann").stdout
    assert token_id not in tokens("eve", "--describe").stdout
    renewed = tokens("bob", "--renew", "--renew-time-period", "60000", "--hmac", hmac)
    assert "Completed renew operation" in renewed.stdout
    tokens("ann", "--expire", "--expiry-time-period", "-1", "--hmac", hmac)
    assert "SaslAuthenticationException" in listed()


@pytest.mark.usefixtures("kafka_jars")
def test_apache_kafka_reads_the_tokens_of_an_export(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        fill(made)
        snapshot = exported(made).snapshot
    dumped = dump_log(snapshot, options=("--cluster-metadata-decoder",))
    (line,) = (line for line in dumped.splitlines() if "DELEGATION_TOKEN_RECORD" in line)
    assert json.loads(line[line.index("{") :])["data"] == {
        "owner": TOKEN.owner,
        "requester": TOKEN.requester,
        "renewers": list(TOKEN.renewers),
        "issueTimestamp": TOKEN.issued_ms,
        "maxTimestamp": TOKEN.max_ms,
        "expirationTimestamp": TOKEN.expiry_ms,
        "tokenId": TOKEN.token_id,
    }

"""Every API, asked by users with every kind of grant: kbroker answers as Apache Kafka with its
StandardAuthorizer."""

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kbroker.protocol.messages.describe_acls import DescribeAclsRequest
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.compat.acl_matrix import NAME, UserPeer, creations, grants, kafka_settings, settings
from tests.compat.acl_questions import OTHER, QUESTIONS
from tests.compat.raw import Case, SocketPeer, differences, plain
from tests.peer.apache_kafka import ApacheKafka, free_port
from tests.peer.kbroker_node import KBroker

pytestmark = pytest.mark.kafka


class Brokers(NamedTuple):
    """Ports of both: for users, and for everything."""

    kafka: int
    kbroker: int
    kafka_plain: int
    kbroker_plain: int


@pytest.fixture(scope="module")
def brokers(kafka_jars: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """Both with the same topics, groups and ACLs."""
    folder = tmp_path_factory.mktemp("acls")
    ports = Brokers(*(free_port() for _ in range(4)))
    kafka = ApacheKafka(folder / "kafka")
    kafka.port = ports.kafka_plain
    broker = KBroker(folder / "kbroker", dict(settings(ports.kbroker_plain, ports.kbroker)))
    try:
        kafka.start(dict(kafka_settings(ports.kafka_plain, ports.kafka, free_port())))
        broker.start()
        for port in (ports.kafka_plain, ports.kbroker_plain):
            _prepare(SocketPeer(port))
        yield ports
    finally:
        broker.stop()
        kafka.stop()


def _prepare(peer: SocketPeer) -> None:
    topics = [CreatableTopic(name, 1, 1) for name in (NAME, OTHER)]
    _ask(peer, ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics, 10_000))
    for group in (NAME, OTHER):
        _wait(lambda group=group: _committed(peer, group))
    entries = tuple(acl for grant in grants() for acl in grant.entries)
    answer = _ask(peer, ApiKey.CREATE_ACLS, 3, creations(entries))
    assert not [result for result in answer.results if result.error_code]
    everything = DescribeAclsRequest(1, None, 1, None, None, 1, 1)

    def all_there() -> bool:
        found = _ask(peer, ApiKey.DESCRIBE_ACLS, 3, everything)
        return sum(len(resource.acls) for resource in found.resources) == len(set(entries))

    _wait(all_there)


def _committed(peer: SocketPeer, group: str) -> bool:
    ready = []
    for kind, key in ((0, group), (1, group), (2, "g:AAAAAAAAAAAAAAAAAAAAAQ:0")):
        found = _ask(peer, ApiKey.FIND_COORDINATOR, 6, FindCoordinatorRequest("", kind, [key]))
        ready.append(not found.coordinators[0].error_code)
    first = _ask(peer, ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(None, 1000))
    if not all(ready) or first.error_code:
        return False
    topics = [OffsetCommitRequestTopic(NAME, bytes(16), [OffsetCommitRequestPartition(0, 1)])]
    answer = _ask(peer, ApiKey.OFFSET_COMMIT, 8, OffsetCommitRequest(group, -1, "", topics=topics))
    return bool(answer.topics[0].partitions[0].error_code == 0)


def _ask(peer: SocketPeer, api: ApiKey, version: int, request: Any) -> Any:
    answer = peer.ask(api, version, request)
    assert answer is not None
    return answer


def _wait(reached: Any) -> None:
    deadline = time.monotonic() + 90
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_users_with_every_grant_are_answered_as_by_kafka(brokers: Brokers) -> None:
    """More than 3,000 questions. ANONYMOUS, a super user, tells both of them the topics' ids."""
    asked = 0
    wrong: dict[str, list[str]] = {}
    ids = {brokers.kafka: _Ids(brokers.kafka_plain), brokers.kbroker: _Ids(brokers.kbroker_plain)}
    for grant in grants():
        peers = [_User(port, grant.user, ids[port]) for port in (brokers.kafka, brokers.kbroker)]
        for one in QUESTIONS:
            for version in range(one.versions[0], one.versions[1] + 1):
                asked += 1
                if lines := _unlike(one, version, *peers):
                    wrong[f"{grant.user}: {one.name} v{version}"] = lines
        for peer in peers:
            peer.close()
    assert asked > 3000
    assert not wrong, _summary(wrong, asked)


def _summary(wrong: dict[str, list[str]], asked: int) -> str:
    """The questions that were answered otherwise: how often, and how the first of those were."""
    by_question: dict[str, list[tuple[str, list[str]]]] = {}
    for name, lines in wrong.items():
        user, _, question = name.partition(": ")
        by_question.setdefault(question, []).append((user, lines))
    told = [f"{len(wrong)} of {asked} answers differ"]
    for question, users in by_question.items():
        told.append(f"{question}, {len(users)} users: {', '.join(user for user, _ in users[:6])}")
        told += [f"    {line[:240]}" for line in users[0][1][:3]]
    return "\n".join(told)


class _Ids:
    """Topic ids by name, asked for once."""

    def __init__(self, port: int) -> None:
        self._peer = SocketPeer(port)
        self._known: dict[str, bytes] = {}

    def of(self, name: str) -> bytes:
        if name not in self._known:
            self._known[name] = self._peer.topic_id(name)
        return self._known[name]


class _User(UserPeer):
    def __init__(self, port: int, user: str, ids: _Ids) -> None:
        super().__init__(port, user)
        self._ids = ids

    def topic_id(self, name: str) -> bytes:
        return self._ids.of(name)


def _unlike(one: Case, version: int, kafka: _User, kbroker: _User) -> list[str]:
    wanted = kafka.ask(one.api, version, one.build(kafka, version))
    found = kbroker.ask(one.api, version, one.build(kbroker, version))
    return differences(plain(wanted, one), plain(found, one))

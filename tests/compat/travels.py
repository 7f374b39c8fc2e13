"""The data that brokers write on the way between kbroker and Apache Kafka, which the next one must
serve."""

import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages import alter_client_quotas as acq
from kbroker.protocol.messages import describe_client_quotas as dcq
from kbroker.protocol.messages import describe_user_scram_credentials as ds
from kbroker.protocol.messages import init_producer_id as ip
from kbroker.protocol.messages import metadata as md
from tests.compat.raw import SocketPeer
from tests.compat.reading import read
from tests.peer.configs import set_configs
from tests.peer.eventually import eventually

Content = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]] | None, int]
"""Key, value, headers and timestamp of a record."""
INTERNAL = ("__consumer_offsets", "__transaction_state", "__share_group_state")


class Travels:
    """The data written by each broker on the way, which the next one must serve."""

    def __init__(self) -> None:
        self.records: dict[tuple[str, int], list[Content]] = {}
        self.configs: dict[str, dict[str, str]] = {}
        self.offsets: dict[str, int] = {}
        self.producer_ids: list[int] = []
        self.ids: dict[str, bytes] = {}
        self.quotas: dict[str, float] = {}
        self.users: set[str] = set()
        self.acls: set[AclBinding] = set()

    def create(self, bootstrap: str, name: str, partitions: int, **configs: str) -> None:
        expected = {key.replace("_", "."): value for key, value in configs.items()}
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(name, partitions, 1, config=expected)])[name].result(120)
        eventually(lambda: name in admin.list_topics(timeout=10).topics)
        self.configs[name] = expected

    def delete(self, bootstrap: str, name: str) -> None:
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.delete_topics([name])[name].result(120)
        for book in (self.configs, self.ids, self.offsets):
            book.pop(name, None)
        self.records = {key: values for key, values in self.records.items() if key[0] != name}

    def grow(self, bootstrap: str, name: str, partitions: int) -> None:
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_partitions([NewPartitions(name, partitions)])[name].result(120)
        eventually(lambda: len(admin.list_topics(name, 10).topics[name].partitions) == partitions)

    def configure(self, bootstrap: str, name: str, key: str, value: str) -> None:
        set_configs(bootstrap, ResourceType.TOPIC, name, {key: value})
        self.configs[name][key] = value

    def write(self, bootstrap: str, name: str, partition: int, tag: str) -> None:
        """Write plain records, a committed transaction and an aborted one: with and without key,
        value and headers, at times of their own."""
        contents = [_content(tag, number) for number in range(20)]
        plain = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        for content in contents[:10]:
            _send(plain, name, partition, content)
        assert plain.flush(120) == 0
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "travels"})
        producer.init_transactions(120)
        for committed, some in ((False, [_content("never", 1)]), (True, contents[10:])):
            producer.begin_transaction()
            for content in some:
                _send(producer, name, partition, content)
            assert producer.flush(120) == 0
            producer.commit_transaction(60) if committed else producer.abort_transaction(60)
        self.records.setdefault((name, partition), []).extend(contents)

    def leave_open(self, bootstrap: str, name: str) -> None:
        """Leave a transaction open, which the next broker ends when the producer returns."""
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "travels"})
        producer.init_transactions(120)
        producer.begin_transaction()
        producer.produce(name, b"open", partition=0)
        assert producer.flush(120) == 0

    def commit(self, bootstrap: str, group: str, name: str, offset: int) -> None:
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})

        def committed() -> bool:
            try:
                consumer.commit(offsets=[TopicPartition(name, 0, offset)], asynchronous=False)
            except KafkaException as error:
                code: Any = error.args[0]
                if code.code() != KafkaError.COORDINATOR_LOAD_IN_PROGRESS:
                    raise
                return False  # Apache Kafka has just started
            return True

        eventually(committed)
        consumer.close()
        self.offsets[group] = offset

    def set_quota(self, port: int, user: str, rate: float) -> None:
        op = acq.OpData("producer_byte_rate", rate, remove=False)
        entry = acq.RequestEntryData([acq.RequestEntityData("user", user)], [op])
        answer: Any = SocketPeer(port).ask(
            ApiKey.ALTER_CLIENT_QUOTAS, 1, acq.AlterClientQuotasRequest([entry])
        )
        assert answer.entries[0].error_code == 0
        self.quotas[user] = rate

    def add_user(self, bootstrap: str, user: str) -> None:
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        change = UserScramCredentialUpsertion(user, info, b"secret", b"salt" * 4)
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.alter_user_scram_credentials([change])[user].result(120)
        self.users.add(user)

    def add_acls(self, bootstrap: str, user: str) -> None:
        """One of each kind of pattern and permission."""
        prefix = ResourcePatternType.PREFIXED
        new = [
            _acl(ResourceType.TOPIC, "orders", ResourcePatternType.LITERAL, user, AclOperation.READ),
            _acl(ResourceType.GROUP, "group-", prefix, user, AclOperation.ALL, host="10.0.0.9"),
            _acl(
                ResourceType["TRANSACTIONAL_ID"],
                "*",
                ResourcePatternType.LITERAL,
                user,
                AclOperation.WRITE,
                deny=True,
            ),
        ]
        admin = AdminClient({"bootstrap.servers": bootstrap})
        for future in admin.create_acls(new).values():
            future.result(120)
        self.acls |= set(new)

    def remove_acl(self, bootstrap: str) -> None:
        """Remove an ACL of an earlier broker."""
        gone = min(self.acls, key=str)
        admin = AdminClient({"bootstrap.servers": bootstrap})
        (future,) = admin.delete_acls([_filter_of(gone)]).values()
        assert set(future.result(120)) == {gone}
        self.acls.remove(gone)

    def take_producer_id(self, port: int) -> None:
        """Check that no producer id is assigned twice."""
        peer = SocketPeer(port)
        answers: list[Any] = []

        def taken() -> bool:
            answers.append(peer.ask(ApiKey.INIT_PRODUCER_ID, 4, ip.InitProducerIdRequest(None, 1000)))
            return bool(answers[-1].error_code == 0)

        eventually(taken)
        assert answers[-1].producer_id not in self.producer_ids
        self.producer_ids.append(answers[-1].producer_id)

    def check(self, bootstrap: str, takes_ids: bool = True) -> None:
        """Check that all data is present, and nothing else. takes_ids: also that no producer id is
        assigned twice."""
        admin = AdminClient({"bootstrap.servers": bootstrap})
        topics = {name for name in admin.list_topics(timeout=30).topics if name not in INTERNAL}
        assert topics == set(self.configs)
        port = int(bootstrap.rpartition(":")[2])
        answer: Any = SocketPeer(port).ask(ApiKey.METADATA, 12, md.MetadataRequest(None))
        ids = {topic.name: topic.topic_id for topic in answer.topics}
        assert self.ids.items() <= ids.items()
        self.ids = ids
        for name, expected in self.configs.items():
            resource = ConfigResource(ResourceType.TOPIC, name)
            found = admin.describe_configs([resource])[resource].result(120)
            own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
            set_here = {key: entry.value for key, entry in found.items() if entry.source == own}
            assert set_here == expected, name
        for (name, partition), values in self.records.items():
            assert [content_of(message) for message in read(bootstrap, name, partition)] == values, (
                name,
                partition,
            )
        for group, offset in self.offsets.items():
            consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
            name = next(iter(self.records))[0]
            (place,) = consumer.committed([TopicPartition(name, 0)], timeout=30)
            consumer.close()
            assert place.offset == offset, group
        requested = dcq.DescribeClientQuotasRequest([dcq.ComponentData("user", 2, None)], strict=False)
        quotas: Any = SocketPeer(port).ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, requested)
        assert {e.entity[0].entity_name: e.values[0].value for e in quotas.entries or ()} == self.quotas
        every = ds.DescribeUserScramCredentialsRequest(None)
        described: Any = SocketPeer(port).ask(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, every)
        assert {result.user for result in described.results} == self.users
        anything: Any = AclBindingFilter
        every_acl = anything(
            ResourceType.ANY,
            None,
            ResourcePatternType.ANY,
            None,
            None,
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        eventually(lambda: set(admin.describe_acls(every_acl).result(120)) == self.acls)
        if takes_ids:
            self.take_producer_id(port)


def _content(tag: str, number: int) -> Content:
    key = None if number % 4 == 0 else f"{tag}-{number % 3}".encode()
    value = None if number % 7 == 3 else f"{tag}-{number}".encode()
    headers: list[tuple[str, bytes | None]] = [("tag", tag.encode()), ("tag", b"\xff\0"), ("none", None)]
    an_hour_ago = int(time.time() - 3600) * 1000
    return key, value, headers[: number % 4] or None, an_hour_ago + (number * 7919) % 1000


def _send(producer: Producer, topic: str, partition: int, content: Content) -> None:
    key, value, headers, timestamp = content
    producer.produce(topic, value, key, partition, timestamp=timestamp, headers=headers or [])


def content_of(message: Message) -> Content:
    """What a record holds, as a consumer receives it."""
    headers: Any = message.headers()
    return message.key(), message.value(), headers, message.timestamp()[1]


def _acl(
    kind: ResourceType,
    name: str,
    pattern: ResourcePatternType,
    user: str,
    operation: AclOperation,
    host: str = "*",
    deny: bool = False,
) -> AclBinding:
    permission = AclPermissionType.DENY if deny else AclPermissionType.ALLOW
    return AclBinding(kind, name, pattern, f"User:{user}", host, operation, permission)


def _filter_of(acl: AclBinding) -> AclBindingFilter:
    return AclBindingFilter(
        acl.restype,
        acl.name,
        acl.resource_pattern_type,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission_type,
    )


def stay(travels: Travels, bootstrap: str, tag: str) -> None:
    """The steps in every broker."""
    travels.write(bootstrap, "orders", 0, tag)
    travels.commit(bootstrap, "readers", "orders", len(travels.records["orders", 0]))
    travels.commit(bootstrap, f"group-{tag}", "orders", 3)
    travels.create(bootstrap, f"of-{tag}", 2, retention_ms="123456789")
    travels.write(bootstrap, f"of-{tag}", 1, tag)
    travels.configure(bootstrap, "orders", "retention.ms", str(10**9 + len(travels.configs)))
    travels.set_quota(int(bootstrap.rpartition(":")[2]), f"user-{tag}", 5e6 + len(travels.quotas))
    travels.add_user(bootstrap, f"user-{tag}")
    if travels.acls:
        travels.remove_acl(bootstrap)
    travels.add_acls(bootstrap, f"user-{tag}")
    travels.leave_open(bootstrap, "orders")

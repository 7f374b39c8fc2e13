"""Admin operations by the admin clients of confluent-kafka, kafka-python and aiokafka."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import aiokafka
import aiokafka.admin
import confluent_kafka
import kafka
import kafka.admin
import kafka.errors
import pytest
from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
)

from tests.compat.clients.conftest import NameFactory, TopicFactory
from tests.compat.clients.python_clients import TIMEOUT_S, Confluent
from tests.compat.clients.record import Record
from tests.peer.eventually import eventually
from tests.peer.side_work import in_time

pytestmark = pytest.mark.compat


def error_of(future: Any) -> str:
    """The name of the error a future ends with."""
    with pytest.raises(KafkaException) as failure:
        future.result(TIMEOUT_S)
    error: Any = failure.value.args[0]
    return str(error.name())


def one(futures: Mapping[Any, Any]) -> Any:
    """The result of the only future."""
    (future,) = futures.values()
    return future.result(TIMEOUT_S)


class TestTopics:
    def test_create_describe_grow_delete(self, admin: AdminClient, fresh: NameFactory) -> None:
        name = fresh("life")
        one(admin.create_topics([NewTopic(name, 2, 1)]))
        eventually(lambda: name in admin.list_topics(timeout=TIMEOUT_S).topics)
        described = one(admin.describe_topics(TopicCollection([name]), include_authorized_operations=True))
        assert (described.name, len(described.partitions), described.is_internal) == (name, 2, False)
        assert [len(each.isr) for each in described.partitions] == [1, 1]
        assert AclOperation.WRITE in described.authorized_operations
        one(admin.create_partitions([NewPartitions(name, 4)]))
        eventually(lambda: len(admin.list_topics(name, TIMEOUT_S).topics[name].partitions) == 4)
        one(admin.delete_topics([name]))
        eventually(lambda: name not in admin.list_topics(timeout=TIMEOUT_S).topics)

    def test_only_validated_topics_are_not_made(self, admin: AdminClient, fresh: NameFactory) -> None:
        name = fresh("dry")
        one(admin.create_topics([NewTopic(name, 1, 1)], validate_only=True))
        assert name not in admin.list_topics(timeout=TIMEOUT_S).topics

    def test_a_recreated_topic_has_another_id_and_no_records(
        self, bootstrap: str, admin: AdminClient, topic: TopicFactory
    ) -> None:
        name = topic()
        Confluent.write(bootstrap, name, "none", [Record(None, b"old")])
        before = one(admin.describe_topics(TopicCollection([name]))).topic_id
        one(admin.delete_topics([name]))
        one(admin.create_topics([NewTopic(name, 1, 1)]))
        eventually(lambda: name in admin.list_topics(timeout=TIMEOUT_S).topics)
        assert str(one(admin.describe_topics(TopicCollection([name]))).topic_id) != str(before)
        Confluent.write(bootstrap, name, "none", [Record(None, b"new")])
        assert [record.value for record in Confluent.read(bootstrap, name, 1)] == [b"new"]

    @pytest.mark.parametrize(
        ("name", "partitions", "replicas", "config", "error"),
        [
            ("bad name", 1, 1, {}, "TOPIC_EXCEPTION"),
            ("..", 1, 1, {}, "TOPIC_EXCEPTION"),
            ("x" * 250, 1, 1, {}, "TOPIC_EXCEPTION"),
            ("none", 0, 1, {}, "INVALID_PARTITIONS"),
            ("three", 1, 3, {}, "INVALID_REPLICATION_FACTOR"),
            ("unknown-config", 1, 1, {"nope": "1"}, "INVALID_CONFIG"),
            ("bad-config", 1, 1, {"retention.ms": "soon"}, "INVALID_CONFIG"),
            ("bad-policy", 1, 1, {"cleanup.policy": "shred"}, "INVALID_CONFIG"),
        ],
    )
    def test_an_invalid_topic_is_refused(
        self,
        admin: AdminClient,
        name: str,
        partitions: int,
        replicas: int,
        config: dict[str, str],
        error: str,
    ) -> None:
        (future,) = admin.create_topics([NewTopic(name, partitions, replicas, config=config)]).values()
        assert error_of(future) == error

    def test_existing_and_unknown_topics_are_refused(
        self, admin: AdminClient, topic: TopicFactory, fresh: NameFactory
    ) -> None:
        name, unknown = topic(2), fresh("unknown")
        assert error_of(admin.create_topics([NewTopic(name, 1, 1)])[name]) == "TOPIC_ALREADY_EXISTS"
        assert error_of(admin.create_partitions([NewPartitions(name, 1)])[name]) == "INVALID_PARTITIONS"
        assert error_of(admin.create_partitions([NewPartitions(name, 2)])[name]) == "INVALID_PARTITIONS"
        assert error_of(admin.delete_topics([unknown])[unknown]) == "UNKNOWN_TOPIC_OR_PART"
        (described,) = admin.describe_topics(TopicCollection([unknown])).values()
        assert error_of(described) == "UNKNOWN_TOPIC_OR_PART"


class TestConfigs:
    def test_incremental_changes_of_configs_are_applied(
        self, admin: AdminClient, topic: TopicFactory
    ) -> None:
        name = topic(retention_ms="1000000")

        def change(key: str, value: str | None, how: AlterConfigOpType) -> None:
            entry = ConfigEntry(key, value, incremental_operation=how)
            resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
            one(admin.incremental_alter_configs([resource]))

        def found(key: str) -> tuple[str, int]:
            entry = one(admin.describe_configs([ConfigResource(ResourceType.TOPIC, name)]))[key]
            return entry.value, entry.source

        assert found("retention.ms") == ("1000000", ConfigSource.DYNAMIC_TOPIC_CONFIG.value)
        change("cleanup.policy", "compact", AlterConfigOpType.APPEND)
        eventually(lambda: found("cleanup.policy")[0] == "delete,compact")
        change("cleanup.policy", "delete", AlterConfigOpType.SUBTRACT)
        eventually(lambda: found("cleanup.policy")[0] == "compact")
        change("retention.ms", None, AlterConfigOpType.DELETE)
        default = ("604800000", ConfigSource.DEFAULT_CONFIG.value)
        eventually(lambda: found("retention.ms") == default)

    def test_a_refused_change_changes_nothing(self, admin: AdminClient, topic: TopicFactory) -> None:
        name = topic()
        for key, value in (("nope", "1"), ("retention.ms", "soon"), ("segment.bytes", "5")):
            entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
            resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
            assert error_of(admin.incremental_alter_configs([resource])[resource]) == "INVALID_CONFIG"
        entries = one(admin.describe_configs([ConfigResource(ResourceType.TOPIC, name)])).values()
        assert not [each for each in entries if each.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value]

    def test_the_entire_configuration_is_replaced(self, admin: AdminClient, topic: TopicFactory) -> None:
        """AlterConfigs, the older call: what is not named goes back to its default."""
        name = topic(retention_ms="1000000")
        with pytest.warns(DeprecationWarning, match="alter_configs"):
            one(admin.alter_configs([ConfigResource(ResourceType.TOPIC, name, {"segment.ms": "60000"})]))

        def found(key: str) -> str:
            return str(one(admin.describe_configs([ConfigResource(ResourceType.TOPIC, name)]))[key].value)

        eventually(lambda: (found("segment.ms"), found("retention.ms")) == ("60000", "604800000"))

    def test_the_brokers_configuration(self, admin: AdminClient) -> None:
        entries = one(admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")]))
        assert len(entries) > 200
        assert entries["node.id"].value == "1"
        assert entries["node.id"].is_read_only
        assert not entries["log.retention.ms"].is_read_only

    def test_unknown_topics_have_no_configuration(self, admin: AdminClient, fresh: NameFactory) -> None:
        resource = ConfigResource(ResourceType.TOPIC, fresh("unknown"))
        assert error_of(admin.describe_configs([resource])[resource]) == "UNKNOWN_TOPIC_OR_PART"


class TestRecordsAndOffsets:
    def test_offsets_are_listed_by_position_and_time(
        self, bootstrap: str, admin: Any, topic: TopicFactory
    ) -> None:
        name = topic()
        records = [Record(None, b"v", (), 1000), Record(None, b"v", (), 5000), Record(None, b"v", (), 3000)]
        Confluent.write(bootstrap, name, "none", records)

        def offset(spec: OffsetSpec) -> tuple[int, int]:
            found = one(admin.list_offsets({TopicPartition(name, 0): spec}))
            return found.offset, found.timestamp

        assert offset(OffsetSpec.earliest()) == (0, -1)
        assert offset(OffsetSpec.latest()) == (3, -1)
        assert offset(OffsetSpec.max_timestamp()) == (1, 5000)
        assert offset(OffsetSpec.for_timestamp(2000)) == (1, 5000)
        assert offset(OffsetSpec.for_timestamp(6000)) == (-1, -1)

    def test_records_are_deleted_up_to_an_offset(
        self, bootstrap: str, admin: AdminClient, topic: TopicFactory
    ) -> None:
        name = topic()
        Confluent.write(bootstrap, name, "none", [Record(None, b"v")] * 5)
        assert one(admin.delete_records([TopicPartition(name, 0, 3)])).low_watermark == 3
        assert one(admin.delete_records([TopicPartition(name, 0, 2)])).low_watermark == 3
        (future,) = admin.delete_records([TopicPartition(name, 0, 99)]).values()
        assert error_of(future) == "OFFSET_OUT_OF_RANGE"
        (future,) = admin.delete_records([TopicPartition(name, 0, confluent_kafka.OFFSET_END)]).values()
        assert future.result(TIMEOUT_S).low_watermark == 5


class TestGroups:
    @pytest.fixture
    def committed(self, bootstrap: str, topic: TopicFactory, fresh: NameFactory) -> tuple[str, str]:
        """An empty group with a commit on each of two partitions: (group, topic)."""
        group, name = fresh("admin-group"), topic(2)
        consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group})
        offsets = [TopicPartition(name, partition, 5 + partition) for partition in range(2)]
        consumer.commit(offsets=offsets, asynchronous=False)
        consumer.close()
        return group, name

    def test_groups_are_listed_and_described(self, admin: AdminClient, committed: tuple[str, str]) -> None:
        group, _ = committed
        listed = admin.list_consumer_groups(states={ConsumerGroupState.EMPTY}).result(TIMEOUT_S)
        assert not listed.errors
        assert group in [each.group_id for each in listed.valid]
        described = one(admin.describe_consumer_groups([group]))
        assert (described.state, described.members) == (ConsumerGroupState.EMPTY, [])

    def test_offsets_are_listed_altered_and_deleted_with_the_group(
        self, admin: AdminClient, committed: tuple[str, str], fresh: NameFactory
    ) -> None:
        group, name = committed

        def offsets() -> list[int]:
            found = one(admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]))
            return [each.offset for each in sorted(found.topic_partitions, key=lambda each: each.partition)]

        assert offsets() == [5, 6]
        changes = ConsumerGroupTopicPartitions(group, [TopicPartition(name, 0, 1)])
        one(admin.alter_consumer_group_offsets([changes]))
        assert offsets() == [1, 6]
        one(admin.delete_consumer_groups([group]))
        assert offsets() == []
        assert error_of(admin.delete_consumer_groups([group])[group]) == "GROUP_ID_NOT_FOUND"

    def test_a_group_in_use_is_neither_altered_nor_deleted(
        self, bootstrap: str, admin: AdminClient, committed: tuple[str, str]
    ) -> None:
        group, name = committed
        consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group})
        consumer.subscribe([name])

        def joined() -> bool:
            consumer.poll(0.2)
            return bool(consumer.assignment())

        eventually(joined)
        described = one(admin.describe_consumer_groups([group]))
        assert described.state == ConsumerGroupState.STABLE
        (member,) = described.members
        assert len(member.assignment.topic_partitions) == 2
        assert error_of(admin.delete_consumer_groups([group])[group]) == "NON_EMPTY_GROUP"
        changes = ConsumerGroupTopicPartitions(group, [TopicPartition(name, 0, 1)])
        altered = one(admin.alter_consumer_group_offsets([changes]))
        assert altered.topic_partitions[0].error.name() == "UNKNOWN_MEMBER_ID"
        consumer.close()


class TestCluster:
    def test_the_cluster_is_described(self, bootstrap: str, admin: Any) -> None:
        cluster = admin.describe_cluster(include_authorized_operations=True).result(TIMEOUT_S)
        assert [f"{node.host}:{node.port}" for node in cluster.nodes] == [bootstrap]
        assert cluster.controller.id == cluster.nodes[0].id
        assert len(cluster.cluster_id) == 22
        assert AclOperation.CREATE in cluster.authorized_operations

    def test_acls_need_an_authorizer(self, admin: AdminClient) -> None:
        anything = (ResourceType.ANY, None, ResourcePatternType.ANY, None, None)
        anyone = AclBindingFilter(*anything, AclOperation.ANY, AclPermissionType.ANY)
        assert admin.describe_acls(anyone).result(TIMEOUT_S) == []
        assert error_of(admin.delete_acls([anyone])[anyone]) == "SECURITY_DISABLED"
        topic = (ResourceType.TOPIC, "t", ResourcePatternType.LITERAL, "User:a", "*")
        binding = AclBinding(*topic, AclOperation.READ, AclPermissionType.ALLOW)
        assert error_of(admin.create_acls([binding])[binding]) == "SECURITY_DISABLED"

    def test_preferred_leaders_lead_already(self, admin: Any, topic: TopicFactory) -> None:
        partition = TopicPartition(topic(), 0)
        preferred = confluent_kafka.ElectionType.PREFERRED  # type: ignore[attr-defined] # the stubs know of no elections
        done = admin.elect_leaders(preferred, [partition]).result(TIMEOUT_S)
        assert done[partition].code() == KafkaError.ELECTION_NOT_NEEDED


class TestKafkaPython:
    @pytest.fixture
    def client(self, bootstrap: str) -> Iterator[kafka.KafkaAdminClient]:
        client = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)
        yield client
        in_time(client.close)

    def test_topics_are_created_listed_and_deleted(
        self, client: kafka.KafkaAdminClient, fresh: NameFactory
    ) -> None:
        name = fresh("python")
        client.create_topics({name: {"num_partitions": 2, "replication_factor": 1}})
        with pytest.raises(kafka.errors.TopicAlreadyExistsError):
            client.create_topics({name: {"num_partitions": 2, "replication_factor": 1}})
        assert name in client.list_topics()
        client.create_partitions({name: 3})
        eventually(lambda: len(client.describe_topics([name])[0]["partitions"]) == 3)
        assert len(client.describe_topic_partitions([name])["topics"][0]["partitions"]) == 3
        client.delete_topics([name])
        eventually(lambda: name not in client.list_topics())

    def test_cluster_and_log_dirs_are_described(
        self, client: kafka.KafkaAdminClient, topic: TopicFactory
    ) -> None:
        name = topic(2)
        assert len(client.describe_cluster()["brokers"]) == 1
        text = str(client.describe_log_dirs())
        assert name in text
        assert client.list_partition_reassignments() == {}

    def test_groups_and_offsets_are_listed_and_changed(
        self, bootstrap: str, client: kafka.KafkaAdminClient, topic: TopicFactory, fresh: NameFactory
    ) -> None:
        name, group = topic(), fresh("python-group")
        partition = kafka.TopicPartition(name, 0)
        client.alter_group_offsets(group, {partition: kafka.OffsetAndMetadata(7, "m", -1)})
        assert group in [each["group_id"] for each in client.list_groups()]
        assert client.list_group_offsets(group)[group][partition].offset == 7
        client.delete_group_offsets(group, [partition])
        assert client.list_group_offsets(group)[group] == {}
        client.delete_groups([group])
        assert group not in [each["group_id"] for each in client.list_groups()]


async def retention_ms(client: aiokafka.admin.AIOKafkaAdminClient, topic: str) -> str:
    resource = aiokafka.admin.config_resource.ConfigResource
    kind = aiokafka.admin.config_resource.ConfigResourceType.TOPIC
    answers = await client.describe_configs([resource(kind, topic)])
    return {entry[0]: entry[1] for entry in answers[0].resources[0][4]}["retention.ms"]


def test_aiokafkas_admin_client_works(bootstrap: str, fresh: NameFactory) -> None:
    name = fresh("aio")

    async def work() -> None:
        client = aiokafka.admin.AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await client.start()
        try:
            await client.create_topics([aiokafka.admin.NewTopic(name, 2, 1)])
            async with asyncio.timeout(TIMEOUT_S):  # Apache Kafka answers before all know the topic
                while name not in await client.list_topics():
                    await asyncio.sleep(0.02)
            await client.create_partitions({name: aiokafka.admin.NewPartitions(3)})
            async with asyncio.timeout(TIMEOUT_S):
                while len((await client.describe_topics([name]))[0]["partitions"]) != 3:
                    await asyncio.sleep(0.02)
            resource = aiokafka.admin.config_resource.ConfigResource
            kind = aiokafka.admin.config_resource.ConfigResourceType.TOPIC
            await client.alter_configs([resource(kind, name, {"retention.ms": "5000"})])
            async with asyncio.timeout(TIMEOUT_S):
                while await retention_ms(client, name) != "5000":
                    await asyncio.sleep(0.02)
            assert isinstance(await client.list_consumer_groups(), list)
            await client.delete_topics([name])
            async with asyncio.timeout(TIMEOUT_S):
                while name in await client.list_topics():
                    await asyncio.sleep(0.02)
        finally:
            await client.close()

    asyncio.run(work())

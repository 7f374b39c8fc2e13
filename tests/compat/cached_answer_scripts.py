"""Conversations in which the same is asked again after everything that changes its answer."""

import random
import time
from itertools import permutations
from typing import Any

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.compression import Codec
from kbroker.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kbroker.protocol.messages.delete_groups import DeleteGroupsRequest
from kbroker.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest
from kbroker.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from kbroker.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kbroker.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kbroker.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kbroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kbroker.protocol.records import build_batch
from kbroker.protocol.schema import ZERO_UUID
from tests.compat.group_requests import commit_request, fetch_request
from tests.compat.group_talk import Talk
from tests.peer.eventually import eventually

TIMES = 3
SEEN_S = 0.1
"""By then a network process has found out about the segments that it was asked for."""
NEW_YEAR_MS = 1_767_225_600_000


def cached_offsets(talk: Talk) -> None:
    """Offsets of a group that come, move and go, in every version of OffsetFetch that names
    topics."""
    talk.create_topic("a", 2)
    topic, group, other = f"{talk.prefix}-a", talk.group(), talk.group("other")

    def fetched(label: str) -> None:
        for version in (1, 2, 5, 6, 7, 8, 9):
            for expected in ({topic: [0, 1]}, {topic: [0]}, *([None] if version >= 2 else [])):
                for _ in range(TIMES):
                    for each in (group, other):
                        request = fetch_request(each, version, expected)
                        talk.ask(f"{label}, fetch v{version}", ApiKey.OFFSET_FETCH, version, request)

    fetched("nothing yet")
    for offset in range(5):  # from the second one on by the cache
        talk.ask("commit", ApiKey.OFFSET_COMMIT, 8, commit_request(group, topic, offset))
        fetched(f"committed {offset}")
    talk.ask("commit", ApiKey.OFFSET_COMMIT, 8, commit_request(group, topic, 77, partitions=(0, 1)))
    fetched("both partitions")
    gone = [OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(1)])]
    talk.ask("delete offset", ApiKey.OFFSET_DELETE, 0, OffsetDeleteRequest(group, gone))
    fetched("deleted offset")
    talk.ask("delete group", ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest([group]))
    fetched("deleted group")
    talk.ask("commit", ApiKey.OFFSET_COMMIT, 8, commit_request(group, topic, 5))
    fetched("a new group")
    talk.ask("commit", ApiKey.OFFSET_COMMIT, 8, commit_request(other, topic, 6))
    fetched("another group, too")


def cached_topics(talk: Talk) -> None:
    """A topic that is made, grows, is written to and goes: Metadata, FindCoordinator and ends of
    logs."""
    name = f"{talk.prefix}-a"

    def query(label: str, *, there: bool = True) -> None:
        for _ in range(TIMES):
            for version in (1, 4, 9, 12) if there else (4, 9, 12):  # older ones make the topic
                answer: Any = talk.peer.ask(ApiKey.METADATA, version, _about(name))
                talk.lines.append((f"{label}, v{version}", talk.level(answer.topics)))
            for version in (1, 4, 6, 10) if there else ():
                for isolation in (0, 1):
                    parts = [ListOffsetsPartition(index, -1, -1) for index in (1, 0)]
                    request = ListOffsetsRequest(-1, isolation, [ListOffsetsTopic(name, parts)])
                    talk.ask(f"{label}, ends v{version}", ApiKey.LIST_OFFSETS, version, request)
            for version in (1, 4):
                find = FindCoordinatorRequest(talk.group(), 0, [talk.group()])
                found: Any = talk.peer.ask(ApiKey.FIND_COORDINATOR, version, find)
                nodes: list[tuple[object, ...]] = [(found.error_code, found.node_id)]
                nodes += [(each.key, each.error_code, each.node_id) for each in found.coordinators]
                talk.lines.append((f"{label}, find v{version}", nodes))

    query("not there", there=False)
    talk.create_topic("a", 2)
    query("made")
    for count in range(3):
        _write(talk, name)
        query(f"written {count}")
    grown = CreatePartitionsRequest([CreatePartitionsTopic(name, 4, None)], 30_000)
    talk.ask("grow", ApiKey.CREATE_PARTITIONS, 3, grown)
    eventually(lambda: len(talk.peer.ask(ApiKey.METADATA, 12, _about(name)).topics[0].partitions) == 4)  # type: ignore[union-attr]
    query("grown")
    talk.ask("delete", ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest([name], [], 30_000))
    eventually(lambda: talk.peer.topic_id(name) == ZERO_UUID)
    query("deleted", there=False)
    talk.create_topic("a", 2)
    query("made again")


def cached_combinations(talk: Talk) -> None:
    """Topics in any combination, which come, grow, are configured and go: Metadata and
    DescribeTopicPartitions."""
    names = [f"{talk.prefix}-{letter}" for letter in "abcd"]

    def query(label: str) -> None:
        for turn in range(TIMES):
            for count in (1, 2, 3, 4):
                for expected in map(list, permutations(names, count)):
                    version = (4, 8, 9, 10, 12, 13)[len(talk.lines) % 6]
                    request = MetadataRequest([MetadataRequestTopic(name=name) for name in expected], False)
                    request.include_topic_authorized_operations = version >= 8 and turn == 1
                    answer: Any = talk.peer.ask(ApiKey.METADATA, version, request)
                    talk.lines.append((f"{label}, {expected} v{version}", talk.level(answer.topics)))
                    describe = DescribeTopicPartitionsRequest([TopicRequest(name) for name in expected], 5)
                    talk.ask(f"{label}, {expected}", ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, describe)
                    talk.lines.append((f"order of {expected}", _order(talk, describe)))

    for letter in "abc":
        talk.create_topic(letter, 1)
    query("three")
    talk.create_topic("d", 2)
    query("four")
    grown = CreatePartitionsRequest([CreatePartitionsTopic(names[1], 3, None)], 30_000)
    talk.ask("grow", ApiKey.CREATE_PARTITIONS, 3, grown)
    eventually(lambda: len(talk.peer.ask(ApiKey.METADATA, 12, _about(names[1])).topics[0].partitions) == 3)  # type: ignore[union-attr]
    query("grown")
    gone = AlterConfigsResource(2, names[2], [AlterableConfig("retention.ms", 0, "1000000")])
    talk.ask("configure", ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, IncrementalAlterConfigsRequest([gone]))
    talk.ask("delete", ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest([names[0]], [], 30_000))
    eventually(lambda: talk.peer.topic_id(names[0]) == ZERO_UUID)
    query("deleted")
    talk.create_topic("a", 2)
    query("made again")


def _order(talk: Talk, request: DescribeTopicPartitionsRequest) -> tuple[object, ...]:
    """In what order an answer names topics, and where it ends."""
    answer: Any = talk.peer.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, request)
    end = answer.next_cursor
    names = tuple(topic.name for topic in answer.topics)
    return names, end and (end.topic_name, end.partition_index)


def cached_times(talk: Talk) -> None:
    """Offsets by time in a log of several segments, with batches of every codec, that grows and
    loses its beginning (of its first segment: Apache Kafka continues to search whole ones until it
    has removed them)."""
    talk.create_topic("t", 1)
    name = f"{talk.prefix}-t"
    small = AlterConfigsResource(2, name, [AlterableConfig("segment.bytes", 0, str(1 << 20))])
    talk.ask("small segments", ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, IncrementalAlterConfigsRequest([small]))
    fate = random.Random(7)
    times = range(NEW_YEAR_MS, NEW_YEAR_MS + 600_000, 7_919)

    def query(label: str) -> None:
        for turn in range(TIMES):
            for at in (0, *times, NEW_YEAR_MS + 10_000_000, -3):
                version = fate.choice((7, 8, 10, 11) if at < 0 else (1, 4, 6, 11))
                parts = [ListOffsetsPartition(0, -1, at)]
                request = ListOffsetsRequest(-1, turn % 2, [ListOffsetsTopic(name, parts)])
                talk.ask(f"{label}, {at} v{version}", ApiKey.LIST_OFFSETS, version, request)
            time.sleep(SEEN_S)

    query("nothing there")
    for count in range(30):
        at = NEW_YEAR_MS + count * 20_000
        records = [
            (b"k", fate.randbytes(1000), (), at + fate.randrange(-30_000, 30_000))
            for _ in range(fate.randrange(1, 300))
        ]
        batch = build_batch(records, codec=fate.choice(list(Codec)))
        data = [TopicProduceData(name, talk.peer.topic_id(name), [PartitionProduceData(0, batch)])]
        talk.ask(f"write {count}", ApiKey.PRODUCE, 9, ProduceRequest(None, -1, 10_000, data))
        if count in (0, 1, 12, 29):
            query(f"written {count}")
    gone = [DeleteRecordsTopic(name, [DeleteRecordsPartition(0, 500)])]
    talk.ask("delete records", ApiKey.DELETE_RECORDS, 2, DeleteRecordsRequest(gone, 30_000))
    query("without its beginning")


def _about(name: str) -> MetadataRequest:
    return MetadataRequest([MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)


def _write(talk: Talk, name: str) -> None:
    batch = build_batch([(b"k", b"v", (), 1_700_000_000_000)])
    data = [TopicProduceData(name, talk.peer.topic_id(name), [PartitionProduceData(1, batch)])]
    talk.ask("write", ApiKey.PRODUCE, 9, ProduceRequest(None, -1, 10_000, data))


SCRIPTS = {
    "standing-offsets": cached_offsets,
    "standing-topics": cached_topics,
    "standing-company": cached_combinations,
    "standing-times": cached_times,
}

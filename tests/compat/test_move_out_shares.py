"""A share group's place goes from kbroker to Apache Kafka and back."""

from pathlib import Path
from typing import Any

import pytest

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages import describe_share_group_offsets as sso
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.compat.export_command import FEW, export
from tests.compat.group_talk import Talk
from tests.compat.raw import SocketPeer
from tests.compat.share_scripts import begin, produce
from tests.compat.share_talk import ShareMember
from tests.peer.apache_kafka import ApacheKafka
from tests.peer.eventually import eventually
from tests.peer.kbroker_node import KBroker

pytestmark = [pytest.mark.kafka, pytest.mark.compat, pytest.mark.timeout(500)]


def share_place(port: int, group: str, topic: str) -> tuple[int, int]:
    """Where a share group stands, and its lag; -1 while the broker has not loaded it."""
    expected = sso.DescribeShareGroupOffsetsRequestTopic(topic, [0])
    request = sso.DescribeShareGroupOffsetsRequest(
        [sso.DescribeShareGroupOffsetsRequestGroup(group, [expected])]
    )
    answer: Any = SocketPeer(port).ask(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 1, request)
    found = [part for each in answer.groups[0].topics for part in each.partitions]
    return (found[0].start_offset, found[0].lag) if found and not found[0].error_code else (-1, -1)


def test_a_share_groups_place_goes_to_apache_kafka_and_back(kafka_jars: str, tmp_path: Path) -> None:
    settings = {"share.coordinator.state.topic.num.partitions": "2", **FEW}
    node = KBroker(tmp_path / "kbroker", settings)
    kafka = ApacheKafka(tmp_path / "kafka")
    kafka.log_dir = node.data_dir

    def port() -> int:
        return int(node.bootstrap.rpartition(":")[2])

    node.start()
    try:
        talk = Talk(SocketPeer(port()), "share")
        find = FindCoordinatorRequest("share-g", 0, ["share-g"])  # makes the coordinators' topic
        eventually(
            lambda: talk.peer.ask(ApiKey.FIND_COORDINATOR, 4, find).coordinators[0].error_code == 0  # type: ignore[union-attr]
        )
        group, topic, topic_id = begin(talk)
        produce(talk, "t", 10, 10)
        member = ShareMember(talk, group, "m")
        eventually(lambda: bool(member.heartbeat("joins", [topic]).assignment) and member.epoch > 0)
        member.fetch("opens", topic_id)
        eventually(lambda: bool(member.fetch("fetches", topic_id).responses) or member.session_epoch > 2)
        member.acknowledge("accepts the first ten and three later", topic_id, [(0, 9, [1]), (12, 14, [1])])
        member.heartbeat("leaves", epoch=-1)
        member.close()  # its other records are released: a change, which writes the start offset
        eventually(lambda: share_place(port(), group, topic) == (10, 7))
    finally:
        node.stop()
    export(node.data_dir, "4.3")
    kafka.start(settings)
    try:
        eventually(lambda: share_place(kafka.port, group, topic) == (10, 7))
    finally:
        kafka.stop()
    node.start()
    try:
        eventually(lambda: share_place(port(), group, topic) == (10, 7))
    finally:
        node.stop()

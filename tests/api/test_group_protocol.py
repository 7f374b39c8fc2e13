"""Group protocols that are off, by a feature or by a setting, are refused as by Apache Kafka."""

import asyncio
from pathlib import Path

import pytest

from kbroker.api.group_protocol import check_protocol
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kbroker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kbroker.protocol.messages.describe_share_group_offsets import DescribeShareGroupOffsetsRequest
from kbroker.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequestGroup as Wanted,
)
from kbroker.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from kbroker.protocol.messages.share_fetch import ShareFetchRequest
from kbroker.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from kbroker.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kbroker.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from kbroker.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    Topology,
)
from tests.api.in_process import ask
from tests.control.fakes import world

OFF = ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    ("feature", "heartbeat", "describe"),
    [
        ("group.version", ConsumerGroupHeartbeatRequest("g"), ConsumerGroupDescribeRequest(["g"])),
        ("share.version", ShareGroupHeartbeatRequest("g"), ShareGroupDescribeRequest(["g"])),
        ("streams.version", StreamsGroupHeartbeatRequest("g"), StreamsGroupDescribeRequest(["g"])),
    ],
)
def test_a_protocol_whose_feature_is_off_is_refused(
    tmp_path: Path, feature: str, heartbeat: object, describe: object
) -> None:
    protocol = {"group.version": "consumer"}.get(feature, feature.partition(".")[0])
    beat, reported = (
        ApiKey[f"{protocol.upper()}_GROUP_HEARTBEAT"],
        ApiKey[f"{protocol.upper()}_GROUP_DESCRIBE"],
    )
    version = 1 if protocol == "share" else 0
    with world(tmp_path) as made:
        check_protocol(made.broker, protocol)
        made.broker.features[feature] = 0
        answer = asyncio.run(ask(made.broker, beat, version, heartbeat))
        assert (answer.error_code, answer.error_message) == (OFF, None)
        groups = asyncio.run(ask(made.broker, reported, version, describe)).groups
        assert [(each.group_id, each.error_code) for each in groups] == [("g", OFF)]


@pytest.mark.parametrize(
    ("api", "version", "request_"),
    [
        (ApiKey.SHARE_FETCH, 1, ShareFetchRequest("g", "m" * 22)),
        (ApiKey.SHARE_ACKNOWLEDGE, 1, ShareAcknowledgeRequest("g", "m" * 22)),
        (ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 0, DescribeShareGroupOffsetsRequest([Wanted("g")])),
    ],
)
def test_share_groups_are_refused_while_their_feature_is_off(
    tmp_path: Path, api: ApiKey, version: int, request_: object
) -> None:
    with world(tmp_path) as made:
        made.broker.features["share.version"] = 0
        answer = asyncio.run(ask(made.broker, api, version, request_))
        assert [each.error_code for each in getattr(answer, "groups", [answer])] == [OFF]


def test_a_protocol_that_the_settings_leave_out_is_refused(tmp_path: Path) -> None:
    with world(tmp_path, {"group.coordinator.rebalance.protocols": "classic,streams"}) as made:
        check_protocol(made.broker, "streams")
        check_protocol(made.broker, "share")
        with pytest.raises(KafkaError) as refused:
            check_protocol(made.broker, "consumer")
        assert refused.value.code == OFF


@pytest.mark.parametrize("protocol", ["consumer", "share", "streams"])
def test_a_heartbeat_that_no_batch_can_hold_is_refused_before_anything_is_made_of_it(
    tmp_path: Path, protocol: str
) -> None:
    names = ["n" * 200] * 6_000  # more than a megabyte
    beat = {
        "consumer": ConsumerGroupHeartbeatRequest("g", subscribed_topic_names=names),
        "share": ShareGroupHeartbeatRequest("g", "m", subscribed_topic_names=names),
        "streams": StreamsGroupHeartbeatRequest("g", topology=Topology(1, [Subtopology("0", names)])),
    }[protocol]
    with world(tmp_path) as made:  # without coordinators: a request to them fails
        version = 1 if protocol == "share" else 0
        answer = asyncio.run(ask(made.broker, ApiKey[f"{protocol.upper()}_GROUP_HEARTBEAT"], version, beat))
        assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR

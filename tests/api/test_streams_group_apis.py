"""Internal topics of streams groups: created before the answer is sent, or the answer has the
reason; UnregisterBroker."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.api import streams_group_heartbeat
from kbroker.api.streams_group_heartbeat import create_internal_topics
from kbroker.config import acls
from kbroker.control.groups.streams_group.configured_topology import Status as Code
from kbroker.control.groups.streams_group.heartbeat import HeartbeatResult
from kbroker.control.groups.streams_group.topology import InternalTopic
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.bounds import MAX_STRING_BYTES
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.streams_group_heartbeat import (
    Status,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from kbroker.protocol.messages.unregister_broker import UnregisterBrokerRequest
from tests.api.granted import Granted, Permission
from tests.api.in_process import ask, client_request
from tests.control.coordinator.runtime_scene import answer_of
from tests.control.fakes import world

MISSING = "Internal topics are missing: bad, good"


def test_internal_topics_are_created_with_configs_and_failures_are_reported(tmp_path: Path) -> None:
    response = StreamsGroupHeartbeatResponse(status=[Status(Code.MISSING_INTERNAL_TOPICS, MISSING)])
    topics = (
        InternalTopic("good", 3, -1, (("cleanup.policy", "compact"),)),
        InternalTopic("bad", 2, 0, (("cleanup.policy", "bogus"),)),
    )
    with world(tmp_path) as made:
        for _ in range(2):  # the second time "good" exists already, which is not an error
            asyncio.run(create_internal_topics(made.broker, "app", HeartbeatResult(response, topics)))
        assert len(made.broker.catalogue.topics["good"].partitions) == 3
        assert made.broker.topic_config("good").compact
        assert "bad" not in made.broker.catalogue.topics
    assert response.status is not None
    reported = response.status[0].status_detail
    assert reported.startswith(f"{MISSING}; Creation failed: bad (")
    assert "good (" not in reported


def test_failures_of_very_many_topics_fit_into_an_answer_and_a_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A client reads no longer string than its length, an int16, can say."""
    response = StreamsGroupHeartbeatResponse(status=[Status(Code.MISSING_INTERNAL_TOPICS, MISSING)])
    names = [f"{number:04}-" + "x" * 200 for number in range(1500)]
    topics = tuple(InternalTopic(name, 2, 0, (("cleanup.policy", "bogus"),)) for name in names)
    with world(tmp_path) as made:
        asyncio.run(create_internal_topics(made.broker, "app", HeartbeatResult(response, topics)))
    assert response.status is not None
    reported = response.status[0].status_detail
    assert reported.startswith(f"{MISSING}; Creation failed: {names[0]} (")
    assert reported.endswith("...")
    assert len(reported.encode()) <= MAX_STRING_BYTES
    assert f"{names[2]} and 1497 additional topics" in caplog.text
    assert len(caplog.text) < 2000


@pytest.mark.parametrize(
    ("granted", "refused"),
    [
        ([], "bad, good"),
        ([(acls.CREATE, acls.TOPIC, "good")], "bad"),
        ([(acls.CREATE, acls.TOPIC, "good"), (acls.CREATE, acls.TOPIC, "bad")], ""),
        ([(acls.CREATE, acls.CLUSTER, acls.CLUSTER_NAME)], ""),
    ],
)
def test_internal_topics_are_created_for_a_client_that_may_create_all_of_them(
    tmp_path: Path, granted: list[Permission], refused: str
) -> None:
    response = StreamsGroupHeartbeatResponse(status=[Status(Code.MISSING_INTERNAL_TOPICS, MISSING)])
    result = HeartbeatResult(response, (InternalTopic("bad", 1, 1, ()), InternalTopic("good", 1, 1, ())))

    async def run(*_: object) -> HeartbeatResult:
        return result

    async def heartbeat(ctx: Any) -> Any:
        return await answer_of(streams_group_heartbeat.handle(ctx, StreamsGroupHeartbeatRequest("app")))

    with world(tmp_path) as made:
        authorizer: Any = Granted(*granted)
        made.broker.authorizer = authorizer
        ctx = SimpleNamespace(
            broker=made.broker,
            services=SimpleNamespace(groups=SimpleNamespace(run=run)),
            client=client_request(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, b""),
            client_id="app-1",
            version=0,
        )
        assert asyncio.run(heartbeat(ctx)) is response
        assert {"bad", "good"} & set(made.broker.catalogue.topics) == (set() if refused else {"bad", "good"})
    assert response.status is not None
    text = f"; Unauthorized to CREATE on topics {refused}." if refused else ""
    assert response.status[0].status_detail == MISSING + text


@pytest.mark.parametrize(
    ("node", "code"), [(99, ErrorCode.BROKER_ID_NOT_REGISTERED), (1, ErrorCode.INVALID_REQUEST)]
)
def test_no_broker_can_be_unregistered(tmp_path: Path, node: int, code: ErrorCode) -> None:
    with world(tmp_path) as made:
        assert made.broker.node_id == 1
        answer = asyncio.run(ask(made.broker, ApiKey.UNREGISTER_BROKER, 0, UnregisterBrokerRequest(node)))
        assert answer.error_code == code

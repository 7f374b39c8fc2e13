"""StreamsGroupHeartbeat (key 88), v0: join, take part in and leave a streams group (KIP-1071).

Offered with the feature streams.version 1. Missing internal topics of the topology are created
before the answer is sent. The answer still reports them as missing; the next heartbeat finds them.
"""

import logging

from kbroker.api.authorization.guard import may, may_all
from kbroker.api.context import RequestContext
from kbroker.api.group_caller import caller
from kbroker.api.group_protocol import check_protocol, check_size
from kbroker.api.later import running
from kbroker.api.row import Api
from kbroker.config import acls
from kbroker.control.broker import Broker
from kbroker.control.changes.topic_change import create_topics
from kbroker.control.groups.streams_group.configured_topology import Status, summary
from kbroker.control.groups.streams_group.heartbeat import HeartbeatResult
from kbroker.control.groups.streams_group.topology import InternalTopic
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.bounds import cut_string
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from kbroker.protocol.slices import paced

API = Api(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, 0)

SHOWN_FAILURES = 1000
"""Maximum of the topics whose creation failed that an answer names. A topology may have a hundred
thousand, and an answer has room for some hundred."""

log = logging.getLogger(__name__)


@running
async def handle(ctx: RequestContext, request: StreamsGroupHeartbeatRequest) -> StreamsGroupHeartbeatResponse:
    """Returns the member's epoch, status messages for its application and, if they have changed,
    its tasks."""
    check_protocol(ctx.broker, "streams")
    check_size(ctx)
    service = ctx.services.groups
    who = caller(ctx)
    result: HeartbeatResult = await service.run(
        request.group_id, lambda now_ms: service.shard.streams_heartbeat(who, request, now_ms)
    )
    if result.missing:
        if refused := _not_creatable(ctx, result):
            _report(result, f"Unauthorized to CREATE on topics {', '.join(refused)}")
        else:
            await create_internal_topics(ctx.broker, request.group_id, result)
    return result.response


def refuse(
    request: StreamsGroupHeartbeatRequest, error: KafkaError, version: int
) -> StreamsGroupHeartbeatResponse:
    """The request failed as a whole."""
    return StreamsGroupHeartbeatResponse(error_code=error.code, error_message=error.own_words)


def _not_creatable(ctx: RequestContext, result: HeartbeatResult) -> list[str]:
    """The missing topics that the client may not create; if there are any, none is created, as in
    Kafka."""
    if may_all(ctx, acls.CREATE):
        return []
    names = (topic.name for topic in paced(result.missing))
    return [name for name in names if not may(ctx, acls.CREATE, acls.TOPIC, name)]


async def create_internal_topics(broker: Broker, group_id: str, result: HeartbeatResult) -> None:
    """Create the internal topics; a failure is reported in the status for missing internal
    topics."""
    made = await create_topics(broker, [_spec(topic) for topic in result.missing])
    failed = {
        name: why
        for name, why in made.items()
        if isinstance(why, KafkaError)
        and why.code is not ErrorCode.TOPIC_ALREADY_EXISTS  # created by another member
    }
    if not failed:
        return
    shown = sorted(failed.items())[:SHOWN_FAILURES]
    why = "; ".join(f"{name} ({error.message})" for name, error in shown)
    names = summary(failed)
    log.warning("group %s: internal topics could not be created: %s: %s", group_id, names, shown[0][1])
    _report(result, f"Creation failed: {why}")


def _report(result: HeartbeatResult, why: str) -> None:
    for status in result.response.status or ():
        if status.status_code == Status.MISSING_INTERNAL_TOPICS:
            status.status_detail = cut_string(f"{status.status_detail}; {why}.")


def _spec(topic: InternalTopic) -> NewTopic:
    return NewTopic(topic.name, topic.partitions, topic.replication_factor or -1, configs=dict(topic.configs))

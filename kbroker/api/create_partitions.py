"""CreatePartitions (key 37), v0-3: add partitions to topics.

v2 flexible; v3 may answer THROTTLING_QUOTA_EXCEEDED. The answer is sent when every process has the
new partitions.
"""

from kbroker.api.context import RequestContext
from kbroker.api.later import check_time, running
from kbroker.api.row import Api
from kbroker.control.changes.topic_change import check_growth, grow_topic
from kbroker.control.log_openings import opened_by
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from kbroker.protocol.slices import Repeated, distinct, paced

API = Api(ApiKey.CREATE_PARTITIONS, 0, 3)


@running
async def handle(ctx: RequestContext, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    """Grow each topic; each has its own result."""
    quota = ctx.services.mutation_quotas.of_client(ctx.client, strict_from=3)
    repeated = Repeated(topic.name for topic in request.topics)
    results = [
        CreatePartitionsTopicResult(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        for name in distinct(topic.name for topic in request.topics)
        if name in repeated
    ]
    check_time(request.timeout_ms, lambda: any(each.name not in repeated for each in paced(request.topics)))
    end_s = opened_by(request.timeout_ms)
    for topic in request.topics:
        if topic.name in repeated:
            continue
        assignments = None
        if topic.assignments is not None:
            assignments = [assignment.broker_ids for assignment in topic.assignments]
        try:
            if request.validate_only:
                check_growth(ctx.broker, topic.name, topic.count, assignments, quota.record)
            else:
                await grow_topic(ctx.broker, topic.name, topic.count, assignments, quota.record, end_s)
            results.append(CreatePartitionsTopicResult(topic.name))
        except KafkaError as error:
            results.append(CreatePartitionsTopicResult(topic.name, error.code, _text(error)))
    return CreatePartitionsResponse(quota.throttle_ms, results)


def _text(error: KafkaError) -> str | None:
    """The error text. Kafka leaves it out for a missing topic; clients insert their own."""
    return None if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else error.message


def refuse(request: CreatePartitionsRequest, error: KafkaError, version: int) -> CreatePartitionsResponse:
    """The request failed as a whole: every topic carries the error."""
    names = distinct(topic.name for topic in request.topics)
    return CreatePartitionsResponse(
        results=[CreatePartitionsTopicResult(name, error.code, error.own_words) for name in names]
    )

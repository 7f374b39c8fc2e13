"""CreateTopics (key 19), v2-7.

v2 throttle time (v0-1 were removed in Kafka 4.0), validate only; v4 -1 partitions or replicas is
the default; v5 flexible, the answer has the topic's configs; v6 may answer
THROTTLING_QUOTA_EXCEEDED; v7 topic id in the answer (KIP-516). The answer is sent when every
process has the topic. A replication factor above the number of replica sites is refused; with one
site a topic that asks for two or three gets its one replica, and the answer's text says so
(kbroker.clamp.replication.factor). Clients only read that text beside an error, so it is harmless
without one.
"""

from kbroker.api.context import RequestContext
from kbroker.api.later import check_time, running
from kbroker.api.row import Api
from kbroker.config.describe import describe_topic
from kbroker.control.broker import Broker
from kbroker.control.changes.topic_change import create_topics, new_topic_id
from kbroker.control.metadata.topic_name import CLUSTER_METADATA
from kbroker.control.metadata.topic_plan import NewTopic, TopicPlan, check_total_partitions
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kbroker.protocol.slices import Repeated, distinct, emptied, paced

API = Api(ApiKey.CREATE_TOPICS, 2, 7)


@running
async def handle(ctx: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
    """Create the topics; each has its own result."""
    repeated = Repeated(topic.name for topic in request.topics)
    once = [topic for topic in request.topics if topic.name not in repeated]
    check_time(request.timeout_ms, lambda: any(topic.name != CLUSTER_METADATA for topic in paced(once)))
    check_total_partitions(paced(once), ctx.broker.config)  # before anything of them is stored
    specs = [_spec(topic) for topic in paced(once)]
    emptied(once)
    quota = ctx.services.mutation_quotas.of_client(ctx.client, strict_from=6)
    results = await create_topics(ctx.broker, specs, request.validate_only, quota.record)
    answers = [
        _result(ctx.broker, spec.name, results[spec.name], request.validate_only)
        for spec in paced(specs)
        if spec.name != CLUSTER_METADATA
    ]
    for name in distinct(topic.name for topic in request.topics):
        if name in repeated:
            answers.append(_error(name, KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")))
        elif name == CLUSTER_METADATA:
            answers.append(_result(ctx.broker, name, results[name], request.validate_only))
    for spec in specs:
        emptied(spec.configs)
    emptied(specs)
    results.clear()
    repeated.clear()
    return CreateTopicsResponse(quota.throttle_ms, answers)


def refuse(request: CreateTopicsRequest, error: KafkaError, version: int) -> CreateTopicsResponse:
    """The request failed as a whole: every topic carries the error."""
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(topic.name, error_code=error.code, error_message=error.own_words)
            for topic in request.topics
        ]
    )


def _spec(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        [(assignment.partition_index, assignment.broker_ids) for assignment in topic.assignments],
        {config.name: config.value for config in topic.configs},
    )


def _error(name: str, error: KafkaError) -> CreatableTopicResult:
    generic = error.code is ErrorCode.UNKNOWN_SERVER_ERROR  # Kafka sends no other text
    message = error.own_words if generic else error.message
    return CreatableTopicResult(name, error_code=error.code, error_message=message)


def _result(
    broker: Broker, name: str, result: TopicPlan | KafkaError, validate_only: bool
) -> CreatableTopicResult:
    if isinstance(result, KafkaError):
        return _error(name, result)
    topic = broker.catalogue.get(name)
    return CreatableTopicResult(
        name,
        new_topic_id() if validate_only or topic is None else topic.topic_id,
        ErrorCode.NONE,
        result.note,
        num_partitions=result.num_partitions,
        replication_factor=result.replication_factor,
        configs=[
            CreatableTopicConfigs(entry.name, entry.value, entry.read_only, entry.source, entry.sensitive)
            for entry in sorted(describe_topic(result.configs, broker.config), key=lambda entry: entry.name)
        ],
    )

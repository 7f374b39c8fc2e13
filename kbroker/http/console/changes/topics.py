"""Create, grow and delete topics; settings of topics and of the broker."""

from typing import Any

from kbroker.http.console.refusal import bad_request, check
from kbroker.http.console.request import Request
from kbroker.http.console.schema import BOOL, INT, TEXT, TOPIC_NAME, Parameter, fields
from kbroker.http.console.views.settings import BROKER_RESOURCE
from kbroker.http.console.views.topics import TOPIC_RESOURCE
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kbroker.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kbroker.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

SET, DELETE = 0, 1
TIMEOUT_MS = 8000
CONFIRM = Parameter("confirm", "The name again, as a confirmation.", required=True)
VALIDATE = Parameter("validate_only", "Only check; change nothing.", "boolean", False)
SETTINGS = Parameter(
    "settings",
    "Values by name; null restores the default.",
    "map",
    required=True,
    low=1,
    high=200,
    nulls=True,
)
CREATE = (
    Parameter("name", "Name of the new topic.", required=True, pattern=TOPIC_NAME),
    Parameter("partitions", "-1 is the broker's default.", "integer", -1, low=-1, high=100_000),
    Parameter("replicas", "-1 is the broker's default.", "integer", -1, low=-1, high=64),
    Parameter("settings", "Settings other than the defaults.", "map", {}, high=200),
    VALIDATE,
)
GROW = (
    Parameter("partitions", "The new number of partitions.", "integer", required=True, low=1, high=100_000),
    VALIDATE,
)
ALTER = (SETTINGS, VALIDATE)
REMOVE = (CONFIRM,)
CREATED = fields(name=TEXT, partitions=INT, replicas=INT, validated_only=BOOL)
CHANGED = fields(name=TEXT, validated_only=BOOL)


def create(request: Request) -> dict[str, Any]:
    """Create a topic."""
    settings = [CreatableTopicConfig(name, value) for name, value in request["settings"].items()]
    new_topic = CreatableTopic(request["name"], request["partitions"], request["replicas"], configs=settings)
    api_request = CreateTopicsRequest([new_topic], TIMEOUT_MS, request["validate_only"])
    answer = request.caller.ask(ApiKey.CREATE_TOPICS, api_request).topics[0]
    check(answer.error_code, request["name"], answer.error_message)
    return {
        "name": request["name"],
        "partitions": answer.num_partitions,
        "replicas": answer.replication_factor,
        "validated_only": request["validate_only"],
    }


def grow(request: Request) -> dict[str, Any]:
    """Add partitions to a topic."""
    name = request["topic"]
    new_topic = CreatePartitionsTopic(name, request["partitions"], None)
    api_request = CreatePartitionsRequest([new_topic], TIMEOUT_MS, request["validate_only"])
    answer = request.caller.ask(ApiKey.CREATE_PARTITIONS, api_request).results[0]
    unexplained = (None, ErrorCode.UNKNOWN_SERVER_ERROR.message)
    if answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR and answer.error_message not in unexplained:
        raise bad_request(f"{name}: {answer.error_message}")  # Kafka's code for too many at once
    check(answer.error_code, name, answer.error_message)
    return {"name": name, "validated_only": request["validate_only"]}


def delete(request: Request) -> dict[str, Any]:
    """Delete a topic with all its records."""
    name = request["topic"]
    confirmed(request, name)
    api_request = DeleteTopicsRequest([name], [DeleteTopicState(name)], TIMEOUT_MS)
    answer = request.caller.ask(ApiKey.DELETE_TOPICS, api_request).responses[0]
    check(answer.error_code, name, answer.error_message)
    return {"name": name, "validated_only": False}


def alter(request: Request) -> dict[str, Any]:
    """Alter settings of a topic."""
    return _alter(request, TOPIC_RESOURCE, request["topic"])


def alter_broker(request: Request) -> dict[str, Any]:
    """Alter dynamic settings of this broker."""
    return _alter(request, BROKER_RESOURCE, str(request.config.node_id))


def _alter(request: Request, kind: int, name: str) -> dict[str, Any]:
    changes = [
        AlterableConfig(key, DELETE if value is None else SET, value)
        for key, value in request["settings"].items()
    ]
    api_request = IncrementalAlterConfigsRequest(
        [AlterConfigsResource(kind, name, changes)], request["validate_only"]
    )
    answer = request.caller.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, api_request).responses[0]
    check(answer.error_code, name, answer.error_message)
    return {"name": name, "validated_only": request["validate_only"]}


def confirmed(request: Request, name: str) -> None:
    """Raises Refusal unless `confirm` repeats the name."""
    if request["confirm"] != name:
        raise bad_request("confirm: does not repeat the name")

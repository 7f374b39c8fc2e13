"""Validation of a ConsumerGroupHeartbeat without its group (GroupCoordinatorService)."""

from collections.abc import Collection

from kbroker.control.groups.modern_group.member import LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

MEMBER_ID_GIVEN_FROM = 1
"""ConsumerGroupHeartbeat version from which clients make their own member ids (KIP-1082)."""


def check_heartbeat(
    request: ConsumerGroupHeartbeatRequest, api_version: int, assignors: Collection[str]
) -> None:
    """Raises INVALID_REQUEST or UNSUPPORTED_ASSIGNOR, in Kafka's words."""
    epoch = request.member_epoch
    if api_version >= MEMBER_ID_GIVEN_FROM or epoch > 0 or epoch == LEAVE_EPOCH:
        _not_empty(request.member_id, "MemberId")
    _not_empty(request.group_id, "GroupId")
    _not_empty(request.instance_id, "InstanceId")
    _not_empty(request.rack_id, "RackId")
    if epoch == 0:
        _check_first(request)
    elif epoch == STATIC_LEAVE_EPOCH:
        if request.instance_id is None:
            raise _invalid("InstanceId can't be null.")
    elif epoch < STATIC_LEAVE_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. "
            f"Supported assignors: {', '.join(assignors)}.",
        )


def _check_first(request: ConsumerGroupHeartbeatRequest) -> None:
    """A member that (re-)joins must send all of its fields."""
    if request.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid(
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
        )


def _not_empty(value: str | None, name: str) -> None:
    if value is not None and not value.strip():
        raise _invalid(f"{name} can't be empty.")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)

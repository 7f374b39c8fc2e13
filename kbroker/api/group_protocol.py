"""Checks which newer group protocols are enabled, by features and
group.coordinator.rebalance.protocols. Bounds on the size of heartbeats and JoinGroups."""

from kbroker.api.context import RequestContext
from kbroker.control.broker import Broker
from kbroker.control.metadata.features import FEATURES
from kbroker.control.metadata.topic_name import CONSUMER_OFFSETS
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.join_group import JoinGroupRequest
from kbroker.protocol.slices import paced

JOIN_BATCHES = 4
"""Size of a JoinGroup in largest batches of the groups' topic. Clients have two protocols or three;
Kafka has no bound."""
_FEATURE_OF = {"consumer": "group.version", "share": "share.version", "streams": "streams.version"}


def check_protocol(broker: Broker, protocol: str) -> None:
    """Raises UNSUPPORTED_VERSION if the protocol is disabled. Share groups only depend on their
    feature, as in Apache Kafka."""
    feature = _FEATURE_OF[protocol]
    level = broker.features.get(feature, FEATURES[feature].default)
    listed = protocol == "share" or protocol in broker.config.get_list(
        "group.coordinator.rebalance.protocols"
    )
    if level == 0 or not listed:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)


def check_size(ctx: RequestContext) -> None:
    """Raises UNKNOWN_SERVER_ERROR, as for the record that could not be appended, when a heartbeat
    is larger than the largest batch of the groups' topic, before anything is made of it."""
    if len(ctx.client.body) > ctx.broker.topic_config(CONSUMER_OFFSETS).max_message_bytes:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)


def check_join_size(ctx: RequestContext, request: JoinGroupRequest) -> None:
    """Raises UNKNOWN_SERVER_ERROR, as at the end of the rebalance, when no batch of the groups'
    topic can hold the member's metadata, whichever of its protocols is chosen; or when they are
    larger than JOIN_BATCHES of them, because the group keeps all of them in memory."""
    limit = ctx.broker.topic_config(CONSUMER_OFFSETS).max_message_bytes
    size = len(ctx.client.body)
    if size <= limit:
        return
    sizes = (len(protocol.metadata) for protocol in paced(request.protocols))
    if size > JOIN_BATCHES * limit or min(sizes, default=0) > limit:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)

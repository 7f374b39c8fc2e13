"""The names that a topic may have (Kafka's Topic class), and the names of internal topics."""

import re

from kbroker.config.topic import SCHEMAS
from kbroker.protocol.bounds import MAX_TOPIC_CHARACTERS
from kbroker.protocol.errors import ErrorCode, KafkaError

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
SHARE_GROUP_STATE = "__share_group_state"
CLUSTER_METADATA = "__cluster_metadata"
INTERNAL = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE})
WRITTEN_HERE = INTERNAL | {SCHEMAS}
"""Topics that the broker and its schema registry write: some settings would break them."""

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def validate(name: str) -> None:
    """Raise INVALID_TOPIC_EXCEPTION with Kafka's text unless the name is legal."""
    if not name:
        why = "the empty string is not allowed"
    elif name in (".", ".."):
        why = f"'{name}' is not allowed"
    elif len(name) > MAX_TOPIC_CHARACTERS:
        why = f"the length of '{name}' is longer than the max allowed length {MAX_TOPIC_CHARACTERS}"
    elif not _LEGAL.fullmatch(name):
        why = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    else:
        return
    raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {why}")


def is_valid(name: str) -> bool:
    """Whether the name is valid."""
    try:
        validate(name)
    except KafkaError:
        return False
    return True


def absent_topic_error(name: str) -> ErrorCode:
    """The error code of Metadata and DescribeTopicPartitions for a topic that does not exist."""
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_valid(name) else ErrorCode.INVALID_TOPIC_EXCEPTION

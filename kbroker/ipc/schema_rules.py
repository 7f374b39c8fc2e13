"""The schemas that the keys and values of a topic's records must name, in one word of its slots.

The word is Slot.COMPRESSION: the codec that every batch must have, or ANY_CODEC. For a topic whose
records are checked against the schema registry the word is below -1. No batch has such a codec, so
all batches of the topic reach the code that checks records one by one. Topics without such checks
pay nothing.
"""

import re
from enum import IntEnum
from typing import Final, NamedTuple

from kbroker.config.topic import SUBJECTS, TopicConfig
from kbroker.ipc.layout import Slot

MIN_RULES: Final = 8
"""Offset of packed words: a packed word without rules would be less."""

_TEXT: Final = re.compile(rb'"[^"]*"')


class Strategy(IntEnum):
    """The way in which the subject of a schema is named."""

    TOPIC_NAME = 0
    RECORD_NAME = 1
    TOPIC_RECORD_NAME = 2


STRATEGIES: Final = dict(zip(SUBJECTS, Strategy, strict=True))
"""Java class of the settings -> strategy."""


class SchemaRules(NamedTuple):
    """Strategies of key and value; None: not checked."""

    key: Strategy | None
    value: Strategy | None

    @classmethod
    def of_topic(cls, config: TopicConfig) -> "SchemaRules":
        """The rules of a topic's settings."""
        key = STRATEGIES[config.confluent_key_subject_name_strategy]
        value = STRATEGIES[config.confluent_value_subject_name_strategy]
        return cls(
            key if config.confluent_key_schema_validation else None,
            value if config.confluent_value_schema_validation else None,
        )


def packed(codec: int, rules: SchemaRules) -> int:
    """The word of a slot. codec: of its batches, or Slot.ANY_CODEC."""
    if rules == (None, None):
        return codec
    key, value = (0 if one is None else one + 1 for one in rules)
    return -2 - (codec + 1 + MIN_RULES * (key + 4 * value))


def unpacked(word: int) -> tuple[int, SchemaRules | None]:
    """(codec, rules) of the word of a slot; None: nothing is checked."""
    if word >= Slot.ANY_CODEC:
        return word, None
    rest, codec = divmod(-2 - word, MIN_RULES)
    value, key = divmod(rest, 4)
    return codec - 1, SchemaRules(_strategy(key), _strategy(value))


def _strategy(number: int) -> Strategy | None:
    return Strategy(number - 1) if number else None


def has_many_values(text: bytes, limit: int) -> bool:
    """Whether JSON has more values than the limit, names included, without parsing it: each text
    has two quotes, and each other value follows a comma, a colon or a bracket."""
    if len(text) <= limit:
        return False
    plain = text.replace(rb"\\", b"").replace(rb"\"", b"")
    if plain.count(b'"') > 2 * limit:
        return True
    outside = _TEXT.sub(b"", plain)
    return sum(outside.count(mark) for mark in (b",", b"[", b"{")) > limit

"""Rules of schemas in the word of a slot."""

from itertools import product

import pytest

from kbroker.config.broker import BrokerConfig
from kbroker.config.setting import ConfigError
from kbroker.config.topic import SUBJECTS, TopicConfig
from kbroker.ipc.layout import Slot
from kbroker.ipc.schema_rules import SchemaRules, Strategy, packed, unpacked


def test_every_codec_and_rule_comes_back_and_looks_like_no_codec() -> None:
    words = set()
    for codec, *rules in product(range(-1, 5), (None, *Strategy), (None, *Strategy)):
        requested = SchemaRules(*rules)
        word = packed(codec, requested)
        words.add(word)
        if requested == (None, None):
            assert word == codec
            assert unpacked(word) == (codec, None)
        else:
            assert word < Slot.ANY_CODEC
            assert unpacked(word) == (codec, requested)
    assert len(words) == 6 * 4 * 4


def rules(**settings: str) -> SchemaRules:
    named = {f"confluent.{name.replace('_', '.')}": text for name, text in settings.items()}
    return SchemaRules.of_topic(TopicConfig.resolve(named, BrokerConfig()))


def test_rules_come_from_the_topics_settings() -> None:
    assert rules() == (None, None)
    assert rules(value_schema_validation="true") == (None, Strategy.TOPIC_NAME)
    assert rules(key_schema_validation="true", key_subject_name_strategy=SUBJECTS[1]) == (
        Strategy.RECORD_NAME,
        None,
    )
    assert rules(value_schema_validation="true", value_subject_name_strategy=SUBJECTS[2]) == (
        None,
        Strategy.TOPIC_RECORD_NAME,
    )
    with pytest.raises(ConfigError, match=r"subject\.name\.strategy"):
        rules(value_subject_name_strategy="TopicNameStrategy")

"""The generated messages are fresh, complete, and say what Apache Kafka's own schemas say."""

from pathlib import Path

import pytest
from kio.schema.index import api_key_map

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.generate.__main__ import stale
from kbroker.protocol.generate.compare import all_differences
from kbroker.protocol.generate.files import NOT_SPOKEN, coordinator_record_files, message_files
from kbroker.protocol.generate.kafka_json import parse_message, snake_case
from kbroker.protocol.messages.index import APIS
from tests.peer.artifacts import PeerUnavailable, class_path


@pytest.fixture(scope="module")
def kafka_libs() -> Path:
    """The folder of Apache Kafka's jars."""
    try:
        return Path(class_path()).parent
    except PeerUnavailable as reason:
        pytest.skip(str(reason))


@pytest.mark.slow
def test_messages_are_what_the_generator_writes() -> None:
    assert not stale(message_files()), "python -m kbroker.protocol.generate rewrites them"


def test_every_api_has_its_messages_and_its_key() -> None:
    spoken = {key: api for key, api in api_key_map.items() if api not in NOT_SPOKEN}
    assert {key: api.module for key, api in APIS.items()} == spoken
    assert {int(key): key.name.lower() for key in ApiKey} == dict(api_key_map)
    assert ApiKey.LIST_OFFSETS.title == "ListOffsets"


@pytest.mark.kafka
def test_messages_agree_with_kafkas_own_schemas(kafka_libs: Path) -> None:
    assert not list(all_differences(kafka_libs))


@pytest.mark.kafka
def test_coordinator_records_are_what_the_generator_writes_from_kafkas_jars(kafka_libs: Path) -> None:
    assert not stale(coordinator_record_files(kafka_libs))


def test_names_become_snake_case_as_kafka_words_them() -> None:
    assert snake_case("ThrottleTimeMs") == "throttle_time_ms"
    assert snake_case("KRaftVersionFeature") == "k_raft_version_feature"
    assert snake_case("topicId") == "topic_id"


def test_a_schema_is_read_with_comments_ranges_and_defaults() -> None:
    message = parse_message(
        """// licence
        { "apiKey": 7, "type": "request", "name": "ARequest", "validVersions": "1-4", "flexibleVersions": "3+",
          // a comment
          "fields": [
            { "name": "Old", "type": "int32", "versions": "0-2", "default": "-1" }, // gone
            { "name": "Items", "type": "[]Item", "versions": "2+", "nullableVersions": "3+", "default": "null",
              "fields": [
                { "name": "Id", "type": "uuid", "versions": "0+", "tag": 1, "taggedVersions": "4+" } ] } ] }"""
    )
    assert message is not None
    assert (message.versions, message.flexible) == ((1, 4), 3)
    old, items = message.root.fields
    assert (old.versions, old.default) == ((1, 2), -1)
    assert (items.versions, items.nullable, items.default) == ((2, 4), (3, 4), None)
    (field,) = message.structs[0].fields
    assert (field.versions, field.tag, field.tagged) == ((2, 4), 1, (4, 4))

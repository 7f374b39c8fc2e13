"""Apache Kafka gets the listeners and settings that the broker had."""

from pathlib import Path

import pytest

from kbroker.config import properties
from kbroker.config.setting import ConfigError
from kbroker.control.kraft.export import Exported
from kbroker.control.kraft.kafka_properties import kafka_properties

EXPORTED = Exported("4.3", Path("/data/__cluster_metadata-0/1-1.checkpoint"), 5, 2, 4, ())


def printed(**given: str) -> dict[str, str]:
    pairs = {name.replace("_", "."): value for name, value in given.items()}
    return properties.parse(kafka_properties(EXPORTED, ["/data", "/more"], 7, pairs or None))


def test_without_a_file_the_listener_is_an_example() -> None:
    found = printed()
    assert found["listeners"] == "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093"
    assert found["controller.quorum.voters"] == "7@127.0.0.1:9093"
    assert found["log.dirs"] == "/data,/more"
    assert found["metadata.log.dir"] == "/data"
    assert found["offsets.topic.replication.factor"] == "1"


def test_listeners_are_those_of_the_broker_and_the_controller_has_a_free_port() -> None:
    found = printed(
        listeners="PLAINTEXT://10.0.0.1:19092,OUTSIDE://:9093",
        advertised_listeners="PLAINTEXT://10.0.0.1:19092,OUTSIDE://broker.example:443",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,OUTSIDE:PLAINTEXT",
    )
    assert found["listeners"] == "PLAINTEXT://10.0.0.1:19092,OUTSIDE://:9093,CONTROLLER://127.0.0.1:9094"
    assert found["controller.quorum.voters"] == "7@127.0.0.1:9094"
    assert found["advertised.listeners"] == "PLAINTEXT://10.0.0.1:19092,OUTSIDE://broker.example:443"
    assert found["listener.security.protocol.map"] == (
        "PLAINTEXT:PLAINTEXT,OUTSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT"
    )
    assert "inter.broker.listener.name" not in found


def test_a_broker_without_a_plaintext_listener_names_one_for_its_own_requests() -> None:
    """Apache Kafka refuses its default, PLAINTEXT, if no listener has it; and two names."""
    listener = {"listeners": "INSIDE://:1092", "listener_security_protocol_map": "INSIDE:PLAINTEXT"}
    for more in ({}, {"security_inter_broker_protocol": "PLAINTEXT"}):
        found = printed(**listener, **more)
        assert found["inter.broker.listener.name"] == "INSIDE"
        assert "security.inter.broker.protocol" not in found
    assert "advertised.listeners" not in found


def test_settings_that_kafka_has_are_kept_as_they_are() -> None:
    found = printed(
        log_retention_hours="7",
        kbroker_http_listen="127.0.0.1:0",
        log_dirs="elsewhere",
        log_dir="elsewhere",
        node_id="7",
        broker_id="7",
        offsets_topic_replication_factor="3",
        principal_builder_rules=" \\a:b=c\n#d",
    )
    assert found["log.retention.hours"] == "7"
    assert found["principal.builder.rules"] == " \\a:b=c\n#d"
    assert (found["log.dirs"], found["node.id"]) == ("/data,/more", "7")
    assert found["offsets.topic.replication.factor"] == "1"
    assert not {"kbroker.http.listen", "log.dir", "broker.id"} & found.keys()


def test_a_file_that_kbroker_refuses_is_refused() -> None:
    with pytest.raises(ConfigError, match="listeners"):
        printed(listeners="nowhere")

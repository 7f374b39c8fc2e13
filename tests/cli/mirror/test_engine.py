"""MirrorMaker's settings: it reads what is committed, and creates nothing at the source."""

import re
from pathlib import Path

from kbroker.cli.connection import Connection
from kbroker.cli.mirror.engine import engine_settings, write_properties
from kbroker.cli.mirror.plan import KEPT_BY_ENGINE
from kbroker.config import properties


def settings_of(topics: list[str], exact: bool = False) -> dict[str, str]:
    source = Connection("source:9092", {"security.protocol": "SSL"}, 1.0)
    return engine_settings(source, Connection("target:9092", {}, 1.0), topics, 3, 4, exact)


def test_the_consumer_of_the_source_reads_committed_records_and_creates_no_topics() -> None:
    """Apache Kafka's consumer creates a missing topic by default: one that was deleted a moment ago
    would be back, with another number of partitions."""
    found = settings_of([])
    assert found["source.consumer.isolation.level"] == "read_committed"
    assert found["source.consumer.auto.offset.reset"] == "earliest"
    assert found["source.consumer.allow.auto.create.topics"] == "false"


def test_all_topics_are_copied_or_the_named_ones() -> None:
    assert settings_of([])["source->target.topics"] == ".*"
    assert settings_of(["a.b", "c"])["source->target.topics"] == "a[.]b,c"


def test_both_sides_have_their_addresses_and_client_settings() -> None:
    found = settings_of([], exact=True)
    assert (found["source.bootstrap.servers"], found["target.bootstrap.servers"]) == (
        "source:9092",
        "target:9092",
    )
    assert found["source.security.protocol"] == "SSL"
    assert "target.security.protocol" not in found
    assert found["target.exactly.once.source.support"] == "enabled"
    assert found["replication.factor"] == "3"


def test_topics_that_are_planned_are_those_that_are_copied() -> None:
    """MirrorMaker leaves out topics named *.replica by default: a move would wait for them without
    end."""
    found = settings_of([])
    left_out = re.compile("|".join(found["source->target.topics.exclude"].split(",")))
    assert found["heartbeats.replication.enabled"] == "false"
    for name in ("a", "a.replica", "heartbeats.a", "iot.heartbeats", "device-heartbeats", "__audit"):
        assert bool(left_out.fullmatch(name)) is bool(KEPT_BY_ENGINE.fullmatch(name))


def test_settings_are_written_as_java_reads_them(tmp_path: Path) -> None:
    """In Latin-1, without spaces at the start: a password in UTF-8 was a wrong one."""
    given = {"source.sasl.jaas.config": 'required username="ä" password="\\"€ a\\\\b";', "b": " x y\n#"}
    file = tmp_path / "mirror.properties"
    write_properties(file, given)
    assert file.read_bytes().isascii()
    assert properties.read(file) == given

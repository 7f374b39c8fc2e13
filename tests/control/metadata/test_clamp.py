"""What one node gives of more replicas than it has, and what it says."""

import asyncio
import logging
from pathlib import Path

import pytest

from kbroker.config.alter import Alteration, Op
from kbroker.config.broker import BrokerConfig
from kbroker.control.changes.config_change import alter
from kbroker.control.changes.topic_change import create_topics
from kbroker.control.metadata.clamp import broker_min_isr_note, is_clamped, min_isr_note
from kbroker.control.metadata.config_resource import BROKER, TOPIC
from kbroker.control.metadata.topic_plan import NewTopic, TopicPlan
from tests.control.fakes import World, world

OFF = {"kbroker.clamp.replication.factor": "false"}


def test_one_node_clamps_every_topic_and_several_only_internal_ones() -> None:
    config, refusing = BrokerConfig({}), BrokerConfig(OFF)
    assert is_clamped("a", config, 1)
    assert not is_clamped("a", config, 2)
    assert is_clamped("__consumer_offsets", config, 2)
    assert not is_clamped("__consumer_offsets", refusing, 1)


def test_a_min_isr_that_can_be_reached_needs_no_word() -> None:
    assert min_isr_note("a", {}, 1) == ""
    assert min_isr_note("a", {"min.insync.replicas": "2"}, 2) == ""
    assert "counts as 1" in min_isr_note("a", {"min.insync.replicas": "2"}, 1)
    assert broker_min_isr_note(BrokerConfig({"min.insync.replicas": "2"}), 2) == ""
    assert broker_min_isr_note(BrokerConfig({"min.insync.replicas": "2", **OFF}), 1) == ""


def plan_of(made: World, spec: NewTopic, validate_only: bool = False) -> TopicPlan:
    plan = asyncio.run(create_topics(made.broker, [spec], validate_only))[spec.name]
    assert isinstance(plan, TopicPlan)
    return plan


def test_defaults_of_a_cluster_are_clamped_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"default.replication.factor": "3", "min.insync.replicas": "2"}
    with caplog.at_level(logging.WARNING), world(tmp_path, settings) as made:
        assert "min.insync.replicas=2 counts as" in caplog.text
        caplog.clear()
        assert plan_of(made, NewTopic("a"), validate_only=True).replication_factor == 1
        assert caplog.text == ""
        assert plan_of(made, NewTopic("a")).replication_factor == 1
        assert "topic 'a' has 1 replica a partition, not 3: this broker is one node" in caplog.text


@pytest.mark.parametrize(("kind", "name"), [(TOPIC, "a"), (BROKER, "")])
def test_a_min_isr_set_later_is_kept_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: int, name: str
) -> None:
    with world(tmp_path) as made:
        plan_of(made, NewTopic("a"))
        change = Alteration("min.insync.replicas", Op.SET, "2")
        with caplog.at_level(logging.WARNING):
            asyncio.run(alter(made.broker, kind, name, [change], validate_only=False))
        assert "min.insync.replicas=2 counts as" in caplog.text
        assert made.broker.topic_config("a").min_insync_replicas == 2


def test_a_note_counts_one_node_and_several() -> None:
    config = BrokerConfig({"min.insync.replicas": "3"})
    assert broker_min_isr_note(config, 1).endswith("where a topic has fewer: there is 1 node")
    assert broker_min_isr_note(config, 2).endswith("where a topic has fewer: there are 2 nodes")

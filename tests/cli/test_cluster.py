"""Identity, brokers, features, API versions and disks."""

import re

import pytest

from kbroker.cli import cluster
from tests.cli.conftest import Shell, Target


def test_the_cluster_names_itself_and_its_brokers(cli: Shell, target: Target) -> None:
    found = cli("cluster", "describe", "--json").json
    assert re.fullmatch(r"[\w-]{22}", found["id"])
    host, port = target.bootstrap.split(":")
    assert [(b["host"], b["port"]) for b in found["brokers"]] == [(host, int(port))]
    assert found["controller"] == found["brokers"][0]["id"]
    assert found["id"] in cli("cluster", "describe").text


def test_apis_are_listed_with_names_and_versions(cli: Shell) -> None:
    rows = {row["api"]: row for row in cli("cluster", "api-versions", "--json").json}
    assert rows["ApiVersions"]["key"] == 18
    assert rows["Fetch"]["max"] >= 13
    assert rows["Produce"]["min"] == 0
    broker = cli("cluster", "describe", "--json").json["brokers"][0]["id"]
    assert len(cli("cluster", "api-versions", "--broker", broker).lines) == len(rows) + 1


def test_features_are_listed_with_the_level_in_effect(cli: Shell) -> None:
    rows = {row["feature"]: row for row in cli("cluster", "features", "--json").json}
    assert rows["metadata.version"]["finalized"] is not None
    assert cli("cluster", "features").lines[0].split() == ["FEATURE", "MIN", "MAX", "FINALIZED"]


def test_log_directories_tell_the_size_of_partitions(cli: Shell, topic: str, target: Target) -> None:
    cli("produce", topic, "-p", 1, "-q", stdin=b"x" * 3000)
    (found,) = cli("cluster", "log-dirs", "--topic", topic, "--json").json
    assert found["log_dir"] == str(target.log_dir)
    assert found["error"] is None
    sizes = {p["partition"]: p["bytes"] for p in found["partitions"]}
    assert sizes[0] == sizes[2] == 0
    assert sizes[1] > 3000
    assert found["total_bytes"] >= found["usable_bytes"] > 0
    assert str(sizes[1]) in cli("cluster", "log-dirs", "--topic", topic, "--partitions").text


def test_log_directories_of_a_topic_take_no_right_to_describe_it(
    cli: Shell, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in Apache Kafka, the right to describe the cluster is enough."""
    monkeypatch.setattr(cluster, "partitions_of", lambda *_: pytest.fail("Metadata hides the topic"))
    (found,) = cli("cluster", "log-dirs", "--topic", topic, "--json").json
    assert {each["topic"] for each in found["partitions"]} == {topic}

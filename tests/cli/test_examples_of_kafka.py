"""The examples of docs/cli.md that start Apache Kafka, move to it or import from it run as they are
written."""

from pathlib import Path

import pytest

from kbroker.cli.mirror.jars import JarsMissing, class_path
from tests.cli.example_runs import LIMIT_S, run_examples

pytestmark = [pytest.mark.kafka, pytest.mark.compat, pytest.mark.long, pytest.mark.timeout(LIMIT_S)]


@pytest.fixture(autouse=True)
def _mirror_maker(kafka_jars: str) -> None:
    try:
        class_path(None)
    except JarsMissing as reason:
        pytest.skip(f"no MirrorMaker 2: {reason}")


def test_apache_kafka_starts_on_an_exported_directory(tmp_path: Path) -> None:
    run_examples("kafka", tmp_path, kafka=True)


def test_all_topics_move_to_a_cluster_with_logins(tmp_path: Path) -> None:
    run_examples("move", tmp_path, kafka=True)


def test_chosen_topics_move_with_the_jars_of_an_installed_kafka(tmp_path: Path) -> None:
    run_examples("move_topics", tmp_path, kafka=True)


def test_a_cluster_with_logins_is_imported(tmp_path: Path) -> None:
    run_examples("import", tmp_path, kafka=True)

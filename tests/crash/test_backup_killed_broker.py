"""Backups under load while processes of the broker are killed: restored elsewhere, the
whole run is clean up to its point."""

from pathlib import Path

import pytest

from loadtest.history import SendStatus
from loadtest.run import load_run
from tests.conftest import BrokerFactory
from tests.crash.killed_backups import restored_run
from tests.loadtest.plain_judge import judge, rows
from tests.loadtest.spark_verdict import clean_verdict

pytestmark = pytest.mark.timeout(600)


@pytest.mark.crash
def test_a_backup_while_processes_are_killed_is_clean_up_to_its_point(
    broker_factory: BrokerFactory, tmp_path: Path
) -> None:
    load, _ = restored_run(broker_factory, tmp_path)
    assert not any(judge(load.folder).values()), judge(load.folder)


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(1200)
def test_the_segments_of_a_restored_broker_are_judged_clean(
    broker_factory: BrokerFactory, tmp_path: Path
) -> None:
    """By the judge of `make prove`, which reads the restored log dir itself."""
    pytest.importorskip("pyspark", reason="`make venv-spark` brings it")
    load, copy = restored_run(broker_factory, tmp_path)
    copy.stop()
    figures = clean_verdict(load.folder, "--segments", copy.settings["log.dirs"])
    acknowledged = rows(load.folder, "sends")["status"] == SendStatus.ACKED
    assert figures["records"]["sends"] == acknowledged.sum() > 0
    assert load_run(load.folder).faults, "no kill was noted"

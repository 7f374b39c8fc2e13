"""Backups to a bucket and by hard links: killed at random moments under load, each restores what
was acknowledged."""

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cli.backup.s3_server import environment, s3_server
from tests.conftest import BrokerFactory
from tests.crash.backup_load import (
    PARTITIONS,
    RECORD_BYTES,
    SEGMENT_BYTES,
    SMALL,
    Load,
    judge,
    kill_at_random,
    restored,
    run,
)

KILLS = int(os.environ.get("KBROKER_KILLS", "3"))
pytestmark = [pytest.mark.crash, pytest.mark.timeout(900 + 30 * KILLS)]


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with s3_server() as endpoint:
        for name, value in environment(endpoint).items():
            monkeypatch.setenv(name, value)
        yield "s3://backups/of/kbroker"


@pytest.mark.parametrize("place", ["bucket", "links"])
def test_a_killed_backup_continues_and_restores_acknowledged_records(
    broker_factory: BrokerFactory, tmp_path: Path, bucket: str, place: str
) -> None:
    dest, more = (bucket, []) if place == "bucket" else (str(tmp_path / "backups"), ["--link"])
    source = broker_factory(
        {"transaction.state.log.num.partitions": "2", "offsets.topic.num.partitions": "2"}
    )
    admin = AdminClient({"bootstrap.servers": source.bootstrap})
    topics = [NewTopic("plain", PARTITIONS, 1, config=SMALL), NewTopic("left", 1, 1), NewTopic("right", 1, 1)]
    for future in admin.create_topics(topics).values():
        future.result(120)
    load, chance = Load(source.bootstrap), random.Random(22)
    load.start()
    try:
        load.wait_for_records(2 * SEGMENT_BYTES // RECORD_BYTES)  # or a backup is all start
        started = time.monotonic()
        run("backup", dest, *more, "--bootstrap", source.bootstrap)
        took = time.monotonic() - started
        kill_at_random(source.bootstrap, dest, chance, took, KILLS, *more)
        load.wait_for_records(2 * SEGMENT_BYTES // RECORD_BYTES)  # closed segments in each partition
        acknowledged, committed = dict(load.acknowledged), load.committed
        run("backup", dest, *more, "--bootstrap", source.bootstrap)
    finally:
        load.stop()
    if place == "links":
        linked = [path for path in Path(dest, "objects").glob("*/*") if path.stat().st_nlink > 1]
        assert linked, "no closed segment: the test shows nothing"
    run("backups", "prune", dest, "--keep", "1", "--yes")
    run("backups", "verify", dest)
    judge(source.bootstrap, acknowledged, committed)
    source.stop()
    judge(restored(broker_factory, dest, tmp_path / "restored").bootstrap, acknowledged, committed)

"""A clean stop writes KRaft metadata for the Apache Kafka whose metadata is in the log dirs."""

import logging
from pathlib import Path

import pytest

from kbroker.control.kraft.export import NEWEST, RELEASES
from kbroker.control.kraft.metadata_folder import FOLDER
from kbroker.control.kraft.records import FeatureLevelRecord
from kbroker.control.kraft.snapshot import SnapshotId, build
from kbroker.control.metadata import kafka_metadata
from kbroker.io.files import meta_properties
from kbroker.supervisor.kraft_metadata import write_kraft_metadata
from kbroker.supervisor.log_dirs import LogDirs
from tests.control.fakes import CLUSTER_ID, world
from tests.control.kraft.fill import fill


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    """Of a broker that has stopped."""
    with world(tmp_path) as made:
        fill(made)
        meta_properties.verify_or_create(made.dirs[0], CLUSTER_ID, 1)
        return made.dirs[0]


def put_metadata(log_dir: str, content: bytes) -> None:
    folder = Path(log_dir, FOLDER)
    folder.mkdir()
    (folder / SnapshotId(40, 1).file_name).write_bytes(content)


@pytest.mark.parametrize(("level", "release"), [(None, NEWEST), (21, "3.9"), (25, "4.0")])
def test_a_stop_writes_for_the_release_of_the_directory(
    log_dir: str, level: int | None, release: str, caplog: pytest.LogCaptureFixture
) -> None:
    if level is not None:
        put_metadata(log_dir, build([FeatureLevelRecord("metadata.version", level)], (), 1, 1))
    dirs = LogDirs([log_dir], 1)
    with caplog.at_level(logging.INFO):
        assert write_kraft_metadata(1, dirs) > 0
    dirs.release(clean=True)
    found = kafka_metadata.read([log_dir])
    assert found is not None
    assert set(found.topics) == {"orders", "doomed"}
    assert found.features == {k: v for k, v in RELEASES[release].items() if k != "kraft.version"}
    assert f"Apache Kafka {release} can start here: 2 topics" in caplog.text


def test_metadata_that_cannot_be_read_is_kept_and_the_stop_continues(
    log_dir: str, caplog: pytest.LogCaptureFixture
) -> None:
    damaged = bytearray(build([FeatureLevelRecord("metadata.version", 21)], (), 1, 1))
    damaged[8 + 4 + 4] = 77  # the magic of its first batch
    put_metadata(log_dir, bytes(damaged))
    dirs = LogDirs([log_dir], 1)
    assert write_kraft_metadata(1, dirs) == -1
    dirs.release(clean=True)
    assert "cannot write KRaft metadata" in caplog.text
    assert [path.read_bytes() for path in Path(log_dir, FOLDER).iterdir()] == [damaged]

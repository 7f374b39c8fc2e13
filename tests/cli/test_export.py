"""`kbroker export kraft` writes for Apache Kafka, and only after a clean stop."""

from pathlib import Path

import pytest

from kbroker.cli.app import run
from kbroker.control.kraft.metadata_folder import FOLDER
from kbroker.control.metadata import kafka_metadata as km
from kbroker.io.files.log_dir import LogDir
from kbroker.io.files.meta_properties import verify_or_create
from kbroker.log import files
from tests.control.fakes import CLUSTER_ID, world
from tests.control.kraft.fill import fill


@pytest.fixture
def stopped(tmp_path: Path) -> LogDir:
    """The log dir of a broker that was stopped cleanly."""
    with world(tmp_path) as made:
        fill(made)
        folder = LogDir(made.dirs[0])
    verify_or_create(folder.path, CLUSTER_ID, 1)
    folder.write_clean_marker()
    return folder


def test_a_stopped_brokers_log_dir_is_exported(stopped: LogDir, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["export", "kraft", "--kafka", "4.0", stopped.path]) == 0
    reported = capsys.readouterr()
    assert f"log.dirs={stopped.path}" in reported.out.splitlines()
    assert "2 topics with 4 partitions" in reported.err
    assert "orders: write.caching" in reported.err
    found = km.read([stopped.path])
    assert found is not None
    assert set(found.topics) == {"orders", "doomed"}
    (written,) = Path(stopped.path, FOLDER).iterdir()
    assert written.stat().st_mode & 0o777 == 0o600
    # a broker whose marker has another epoch than its record loses its place in the in-sync sets
    assert '"brokerEpoch":1' in Path(stopped.path, files.CLEAN_SHUTDOWN).read_text()


def test_an_unclean_stop_a_running_broker_and_other_folders_are_refused(
    stopped: LogDir, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = LogDir(stopped.path)
    other.lock()
    assert run(["export", "kraft", stopped.path]) == 1
    other.unlock()
    Path(stopped.path, files.CLEAN_SHUTDOWN).unlink()
    assert run(["export", "kraft", stopped.path]) == 1
    assert run(["export", "kraft", str(tmp_path)]) == 2
    reported = capsys.readouterr().err.splitlines()
    assert [("in use" in reported[0]), ("not clean" in reported[1]), ("no kbroker.db" in reported[2])] == [
        True
    ] * 3
    assert not Path(stopped.path, FOLDER).exists()


def test_log_dirs_of_two_brokers_are_refused(
    stopped: LogDir, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    verify_or_create(str(other), CLUSTER_ID, 2)
    LogDir(str(other)).write_clean_marker()
    assert run(["export", "kraft", stopped.path, str(other)]) == 1
    assert "name the log.dirs of one broker: these belong to 2" in capsys.readouterr().err
    assert not Path(stopped.path, FOLDER).exists()


def test_the_listener_and_the_settings_of_the_broker_are_printed(
    stopped: LogDir, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "listeners=PLAINTEXT://127.0.0.1:19092\nlog.retention.hours=7\nkbroker.write.caching=true\n"
    )
    assert run(["export", "kraft", "--properties", str(file), stopped.path]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "listeners=PLAINTEXT://127.0.0.1:19092,CONTROLLER://127.0.0.1:9093" in lines
    assert "log.retention.hours=7" in lines
    assert not [line for line in lines if line.startswith(("kbroker", "advertised"))]


@pytest.mark.parametrize("text", [None, "listeners=nowhere", "log.dirs=/tmp\nnode.id=x"])
def test_a_wrong_file_ends_the_export_before_it_writes(
    stopped: LogDir, tmp_path: Path, text: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "server.properties"
    if text is not None:
        file.write_text(text)
    assert run(["export", "kraft", "--properties", str(file), stopped.path]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert not Path(stopped.path, FOLDER).exists()

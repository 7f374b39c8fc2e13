from dataclasses import replace
from pathlib import Path

import pytest

from tests.tuning.fakes import MOUNT, carrying, on, situation
from tests.tuning.knobs.asking import ask
from tuning.finding import Finding, Severity


def checked(tmp_path: Path, name: str, **mount: object) -> Finding:
    return ask(on(situation(tmp_path), mounts=(replace(MOUNT, **mount),)), name)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "severity"),
    [
        ("ext4", Severity.OK),
        ("xfs", Severity.OK),
        ("btrfs", Severity.ADVICE),
        ("nfs4", Severity.SERIOUS),
        ("fuse.s3fs", Severity.SERIOUS),
        ("tmpfs", Severity.SERIOUS),
        ("overlay", Severity.SERIOUS),
    ],
)
def test_file_systems_are_judged_by_what_they_keep(tmp_path: Path, kind: str, severity: Severity) -> None:
    assert checked(tmp_path, ": file system", kind=kind).severity is severity


@pytest.mark.parametrize(
    ("option", "name", "severity", "apply"),
    [
        ("nobarrier", "barriers", Severity.SERIOUS, "mount -o remount,barrier=1 /data"),
        ("sync", "synchronous mount", Severity.SERIOUS, "mount -o remount,async /data"),
        ("data=journal", "journalled data", Severity.ADVICE, "mount -o remount,data=ordered /data"),
        ("strictatime", "access times", Severity.ADVICE, "mount -o remount,noatime /data"),
        ("discard", "discard", Severity.NOTE, "mount -o remount,nodiscard /data"),
        ("ro", "read-only", Severity.SERIOUS, "mount -o remount,rw /data"),
    ],
)
def test_options_that_lose_or_cost_are_reported_with_the_way_back(
    tmp_path: Path, option: str, name: str, severity: Severity, apply: str
) -> None:
    assert checked(tmp_path, f": {name}").severity is Severity.OK
    found = checked(tmp_path, f": {name}", options=frozenset({"rw", option}))
    assert found.severity is severity
    assert found.remedy is not None
    assert found.remedy.apply == apply
    assert found.remedy.undo == f"mount -o remount,{option} /data"


def test_little_space_is_advice_and_hardly_any_is_serious(tmp_path: Path) -> None:
    shares = {share: int(MOUNT.total_bytes * share) for share in (0.5, 0.1, 0.04)}
    severities = [checked(tmp_path, "free space", free_bytes=free).severity for free in shares.values()]
    assert severities == [Severity.OK, Severity.ADVICE, Severity.SERIOUS]


def test_active_segments_that_fill_the_disk_are_reported_when_partitions_are_known(tmp_path: Path) -> None:
    found = ask(carrying(situation(tmp_path), partitions=5000), "free space")
    assert found.severity is Severity.ADVICE
    assert "log.segment.bytes" in (found.remedy.apply if found.remedy else "")


def test_too_few_inodes_are_serious_where_inodes_are_counted(tmp_path: Path) -> None:
    assert checked(tmp_path, "free inodes", free_inodes=1000).severity is Severity.SERIOUS
    assert checked(tmp_path, "free inodes", free_inodes=0, total_inodes=0).severity is Severity.UNSEEN


def test_a_folder_that_is_swept_is_serious(tmp_path: Path) -> None:
    assert checked(tmp_path, "place of log.dirs", dirs=("/tmp/kafka-logs",)).severity is Severity.SERIOUS
    assert checked(tmp_path, "place of log.dirs", dirs=("/tmpfiles/a",)).severity is Severity.OK


def test_a_log_dir_that_cannot_be_written_to_is_serious(tmp_path: Path) -> None:
    assert ask(situation(tmp_path), "written to by this user").severity is Severity.OK
    found = ask(on(situation(tmp_path), unwritable=MOUNT.dirs), "written to by this user")
    assert (found.severity, found.now) == (Severity.SERIOUS, MOUNT.dirs[0])

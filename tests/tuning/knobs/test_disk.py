from dataclasses import replace
from pathlib import Path

import pytest

from tests.tuning.fakes import DISK, MOUNT, carrying, on, situation
from tests.tuning.knobs.asking import ask
from tuning.finding import Severity
from tuning.host.upkeep import Upkeep


@pytest.mark.parametrize(
    ("name", "rotational", "scheduler", "proposed"),
    [
        ("nvme0n1", False, "none", ""),
        ("nvme0n1", False, "mq-deadline", ""),
        ("nvme0n1", False, "bfq", "none"),
        ("sda", True, "none", "mq-deadline"),
        ("sda", True, "bfq", "mq-deadline"),
        ("vda", True, "mq-deadline", ""),  # what lies below a virtual disk is not known
    ],
)
def test_the_scheduler_follows_the_kind_of_disk(
    tmp_path: Path, name: str, rotational: bool, scheduler: str, proposed: str
) -> None:
    disk = replace(DISK, name=name, queue=f"block/{name}/queue", rotational=rotational, scheduler=scheduler)
    found = ask(on(situation(tmp_path), disks=(disk,)), "queue/scheduler")
    assert found.proposed == proposed
    if found.remedy is not None:
        assert found.remedy.apply == f"echo {proposed} > /sys/block/{name}/queue/scheduler"
        assert found.remedy.undo == f"echo {scheduler} > /sys/block/{name}/queue/scheduler"


@pytest.mark.parametrize(("now", "proposed"), [(16, "128"), (128, ""), (8192, ""), (65536, "16384")])
def test_read_ahead_is_changed_only_at_extremes(tmp_path: Path, now: int, proposed: str) -> None:
    base = on(situation(tmp_path), disks=(replace(DISK, read_ahead_kb=now),))
    assert ask(base, "queue/read_ahead_kb").proposed == proposed


def test_throttling_of_write_back_matters_when_acks_wait_for_the_disk(tmp_path: Path) -> None:
    base = situation(tmp_path)
    assert ask(base, "queue/wbt_lat_usec").severity is Severity.OK
    assert ask(carrying(base, durable=True), "queue/wbt_lat_usec").proposed == "-1"


def test_a_volatile_cache_is_reported_where_acks_wait_for_it(tmp_path: Path) -> None:
    base = on(situation(tmp_path), disks=(replace(DISK, write_cache="write back"),))
    assert ask(base, "queue/write_cache").severity is Severity.OK
    assert ask(carrying(base, durable=True), "queue/write_cache").severity is Severity.NOTE


def test_a_queue_without_such_a_value_is_unseen(tmp_path: Path) -> None:
    base = on(situation(tmp_path), disks=(replace(DISK, nr_requests=None),))
    assert ask(base, "queue/nr_requests").severity is Severity.UNSEEN


def test_merging_is_switched_on_again(tmp_path: Path) -> None:
    found = ask(on(situation(tmp_path), disks=(replace(DISK, nomerges=2),)), "queue/nomerges")
    assert (found.severity, found.proposed) == (Severity.ADVICE, "0")
    assert ask(on(situation(tmp_path), disks=(replace(DISK, nomerges=0),)), "queue/nomerges").proposed == ""


@pytest.mark.parametrize(
    ("discards", "timer", "options", "severity"),
    [
        (True, False, frozenset({"rw"}), Severity.NOTE),
        (True, True, frozenset({"rw"}), Severity.OK),
        (True, False, frozenset({"rw", "discard"}), Severity.OK),
        (False, False, frozenset({"rw"}), Severity.OK),
        (True, None, frozenset({"rw"}), Severity.UNSEEN),
    ],
)
def test_freed_blocks_are_reported_to_the_disk_either_way(
    tmp_path: Path, discards: bool, timer: bool | None, options: frozenset[str], severity: Severity
) -> None:
    base = on(situation(tmp_path), disks=(replace(DISK, discards=discards),), upkeep=Upkeep(True, timer))
    found = ask(on(base, mounts=(replace(MOUNT, options=options),)), "fstrim.timer")
    assert found.severity is severity

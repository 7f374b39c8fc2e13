"""Records that are older than their topic's TTL are below the log start, and no others."""

from pathlib import Path
from typing import Any

import pytest

from kbroker.io import expiry
from kbroker.io.expiry import Expiry
from kbroker.io.partition.unified_log import UnifiedLog
from kbroker.ipc.layout import Counter, Slot, SlotFlag
from kbroker.log import files
from kbroker.log.timestamps import locate_batch
from tests.io.append.plain_append import NOW, Log, topic_config
from tests.log.batch_bytes import batch

TTL_MS = 1000


class Case:
    """A log whose records expire. It stands for the logs of an IO worker, and notes where they are
    to start."""

    def __init__(self, root: Path, log: Log | None = None, **settings: object) -> None:
        config = topic_config(kbroker_record_ttl_ms=TTL_MS, **{"index_interval_bytes": 50, **settings})
        self.log = log or Log(root, config)
        self.log.open()
        self.expiring = {self.log.slot}
        self.starts: list[dict[int, int]] = []
        self.read_errors: list[OSError] = []
        self.closed = self.fails = False
        logs: Any = self
        self.failures = logs
        self.counters = Counter.table(self.log.slot + 1)
        self.expiry = Expiry(logs, self.counters)

    def get(self, _: int) -> UnifiedLog | None:
        return None if self.closed else self.log.partition

    def advance_log_starts(self, starts: dict[int, int]) -> None:
        self.starts.append(dict(starts))
        for start in () if self.fails else starts.values():
            self.log.partition.advance_log_start(start)

    def read_failed(self, _: int, error: OSError) -> None:
        self.read_errors.append(error)

    def append(self, *ages: int) -> None:
        """A batch of records that were written so many milliseconds before NOW."""
        self.log.append(batch(0, [b"x" * 40] * len(ages), [NOW - age for age in ages]))

    @property
    def counted(self) -> int:
        """Records that have expired, as the broker counts them."""
        return int(self.counters[self.log.slot, Counter.EXPIRED])

    def turn(self, after_ms: int = 0) -> int:
        """The log start then."""
        self.expiry.begin()
        while self.expiry.pending:
            self.expiry.turn(NOW + after_ms)
        return self.log.partition.log_start


def test_the_log_starts_at_the_first_batch_that_has_not_expired(tmp_path: Path) -> None:
    case = Case(tmp_path)
    for age in (3000, 2000, 1001, 1000, 500):
        case.append(age)
    assert case.turn() == 3
    assert case.log.words[Slot.LOG_START] == 3
    assert case.turn(1) == 4
    assert case.turn(500) == 4
    assert case.turn(501) == 5


def test_a_batch_expires_with_its_newest_record(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.append(2000, 500, 1500)
    assert case.turn(500) == 0
    assert case.turn(501) == 3


def test_nothing_expires_before_what_was_written_before_it(tmp_path: Path) -> None:
    case = Case(tmp_path)
    for age in (2000, 100, 3000, 0):
        case.append(age)
    assert case.turn() == 1
    assert case.turn(900) == 1
    assert case.turn(901) == 3


def test_closed_segments_are_passed_over_and_deleted_by_retention(tmp_path: Path) -> None:
    case = Case(tmp_path, retention_ms=-1)
    for age in (5000, 4000, 3000, 100):
        case.append(age)
        case.log.partition.roll(NOW)
    case.append(0)
    assert case.turn() == 3
    assert case.log.partition.retention(NOW) == 3
    assert case.log.partition.base_offsets[0] == 3
    assert case.turn(5000) == 5
    assert case.log.partition.retention(NOW + 5000) == 2
    assert case.log.partition.size == 0


@pytest.mark.parametrize("interval", [50, 4096])
def test_a_start_in_a_segment_that_reaches_the_time_only_before_it_does_not_hide_later_segments(
    tmp_path: Path, interval: int
) -> None:
    case = Case(tmp_path, index_interval_bytes=interval)
    for age in (0, 5000):
        case.append(age)
    case.log.partition.roll(NOW)
    case.append(100)
    case.log.partition.advance_log_start(1)
    assert case.turn() == 2


def test_nothing_beyond_the_high_watermark_expires(tmp_path: Path) -> None:
    config = topic_config(kbroker_record_ttl_ms=TTL_MS, write_caching=False)
    case = Case(tmp_path, Log(tmp_path, config, flags=SlotFlag.DURABLE))
    case.append(5000)
    case.log.partition.durability.flush()
    case.append(4000)
    assert case.log.partition.high_watermark == 1
    assert case.turn() == 1
    case.log.partition.durability.flush()
    assert case.turn() == 2


def test_a_log_is_read_only_when_something_can_expire(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(tmp_path)
    case.append(0)
    case.append(500)
    reads: list[int] = []

    def counted(*arguments: Any) -> Any:
        reads.append(arguments[1])
        return locate_batch(*arguments)

    monkeypatch.setattr(expiry, "locate_batch", counted)
    for after_ms in (0, 10, 999, 1000):
        assert case.turn(after_ms) == 0
    assert len(reads) == 1
    assert case.turn(1001) == 2
    assert case.turn(5000) == 2
    assert len(reads) == 2
    case.append(-4000)
    assert case.turn(5000) == 2
    case.log.partition.configure(topic_config(kbroker_record_ttl_ms=10))
    assert case.turn(5000) == 3


def test_deleting_records_makes_it_look_again(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.append(0)
    case.append(900)
    assert case.turn() == 0
    case.log.partition.delete_records(1)
    assert case.turn(200) == 2


def test_followers_and_closed_logs_do_not_expire(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.append(5000)
    case.log.partition.role.follow(-1)
    assert case.turn() == 0
    case.log.partition.role.lead(2)
    case.log.partition.role.pause()
    assert case.turn() == 0
    case.log.partition.role.resume()
    assert case.turn() == 1
    case.closed = True
    assert case.turn() == 1
    assert case.expiring == set()


def test_a_damaged_log_keeps_its_records(tmp_path: Path) -> None:
    case = Case(tmp_path)
    for _ in range(3):
        case.append(5000)
    path = next(case.log.folder.glob("*.log"))
    data = bytearray(path.read_bytes())
    data[16] = 9  # no such magic
    path.write_bytes(data)
    next(case.log.folder.glob("*.timeindex")).write_bytes(b"")
    assert case.turn() == 0
    assert case.read_errors == []


def test_expired_records_are_still_gone_after_a_crash(tmp_path: Path) -> None:
    case = Case(tmp_path)
    for age in (3000, 2000, 0):
        case.append(age)
    start = case.turn()
    case.log.reopen(clean=False, log_start=start)
    assert case.log.partition.log_start == 2


def test_only_expired_records_are_counted(tmp_path: Path) -> None:
    case = Case(tmp_path)
    for age in (3000, 2000, 100, 100):
        case.append(age, age)
    case.fails = True
    assert (case.turn(), case.counted) == (0, 0)
    case.fails = False
    assert (case.turn(), case.counted) == (4, 4)
    assert (case.turn(), case.counted) == (4, 4)
    case.log.partition.delete_records(6)
    assert (case.turn(901), case.counted) == (8, 6)


def test_very_many_segments_expire_without_a_look_at_their_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client may make thousands a second; to list and open them all took longer each second."""
    case = Case(tmp_path, retention_ms=-1)
    for number in range(200):
        case.append(5000 - number)
        case.log.partition.roll(NOW)
    case.append(0)
    listed: list[str] = []
    monkeypatch.setattr(files, "list_segments", listed.append)
    assert case.turn() == 200
    assert case.turn(1001) == 201
    assert listed == []


@pytest.mark.parametrize("most", [3, 1000])
def test_segments_whose_times_are_not_known_are_read_few_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Those of an earlier run of the broker."""
    monkeypatch.setattr(expiry, "LISTED", most)
    case = Case(tmp_path, retention_ms=-1)
    for age in (5000, 4000, 3000, 2000, 1500, 100, 50):
        case.append(age)
        case.log.partition.roll(NOW)
    case.append(0)
    case.log.reopen()
    turns = [case.turn() for _ in range(4)]
    assert turns == ([2, 4, 5, 5] if most == 3 else [5] * 4)
    assert case.turn(901) == 6


def test_a_segment_without_times_does_not_hide_those_after_it(tmp_path: Path) -> None:
    case = Case(tmp_path, retention_ms=-1)
    case.log.append(batch(0, [b"x"], [-1]))
    case.log.partition.roll(NOW)
    for age in (5000, 100):
        case.append(age)
        case.log.partition.roll(NOW)
    assert case.turn() == 2

"""Whoever waits for a recovery sees it move; whoever does not wait sees nothing."""

from pathlib import Path

from kbroker.io.openings import RecoveryProgress, bytes_from
from kbroker.log import files

SECOND = 1_000_000_000


def test_a_line_a_second_and_one_at_the_end() -> None:
    progress = RecoveryProgress()
    for _ in range(3):
        progress.begin(0)
    progress.scanned(5_000_000)
    progress.finish()
    assert progress.tell(SECOND // 2) is None
    assert progress.tell(SECOND) == "1 of 3 logs loaded, 5 MB checked in 1.0 s"
    assert progress.tell(SECOND + 1) is None
    progress.finish()
    progress.finish()
    assert progress.tell(SECOND * 3 // 2) == "3 of 3 logs loaded, 5 MB checked in 1.5 s"
    assert progress.tell(SECOND * 5) is None


def test_quick_loading_without_scanning_says_nothing() -> None:
    progress = RecoveryProgress()
    for n in range(100):
        progress.begin(n)
        progress.finish()
        assert progress.tell(n) is None


def test_a_second_round_counts_anew() -> None:
    progress = RecoveryProgress()
    progress.begin(0)
    progress.scanned(1000)
    progress.finish()
    progress.begin(10 * SECOND)
    assert progress.tell(12 * SECOND) == "0 of 1 logs loaded, 0 MB checked in 2.0 s"


def test_the_bytes_to_check_are_those_of_segments_beyond_the_recovery_point(tmp_path: Path) -> None:
    for base, size in ((0, 100), (50, 20), (70, 3)):
        Path(files.path(str(tmp_path), base, files.LOG)).write_bytes(bytes(size))
    Path(files.path(str(tmp_path), 70, files.INDEX)).write_bytes(bytes(1000))
    assert [bytes_from(str(tmp_path), offset) for offset in (0, 49, 50, 69, 70, 500)] == [
        123,
        123,
        23,
        23,
        3,
        3,
    ]
    assert bytes_from(str(tmp_path / "none"), 0) == 0
    (tmp_path / "empty").mkdir()
    assert bytes_from(str(tmp_path / "empty"), 0) == 0

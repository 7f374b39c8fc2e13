"""Whoever waits for a recovery sees it move; whoever does not wait sees nothing."""

from kbroker.io.openings import RecoveryProgress

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

from pathlib import Path

from tuning.bench.loopback import measure_loopback


def test_both_sides_are_measured_and_nothing_is_left(tmp_path: Path) -> None:
    figures = measure_loopback(tmp_path, 0.05)
    assert figures.rate > 0
    assert figures.send_cpu > 0
    assert figures.receive_cpu > 0
    assert not list(tmp_path.iterdir())

"""A run has one congestion control, and the host its own again afterwards."""

from pathlib import Path

import pytest

from bench.congestion import CongestionUnavailable, congestion_control


@pytest.fixture
def kernel(tmp_path: Path) -> tuple[Path, Path]:
    current, available = tmp_path / "current", tmp_path / "available"
    current.write_text("bbr\n")
    available.write_text("reno bbr cubic\n")
    return current, available


@pytest.mark.parametrize(("requested", "name"), [("", "cubic"), ("reno", "reno"), ("bbr", "bbr")])
def test_the_requested_one_is_in_force_for_the_run(
    kernel: tuple[Path, Path], requested: str, name: str
) -> None:
    with congestion_control(requested, *kernel) as used:
        assert (used, kernel[0].read_text().strip()) == (name, name)
    assert kernel[0].read_text().strip() == "bbr"


def test_a_host_without_cubic_keeps_its_own(kernel: tuple[Path, Path]) -> None:
    kernel[1].write_text("bbr\n")
    with congestion_control("", *kernel) as used:
        assert used == "bbr"


def test_a_named_one_that_cannot_be_had_is_an_error(kernel: tuple[Path, Path]) -> None:
    with pytest.raises(CongestionUnavailable, match="vegas"), congestion_control("vegas", *kernel):
        pass
    assert kernel[0].read_text().strip() == "bbr"

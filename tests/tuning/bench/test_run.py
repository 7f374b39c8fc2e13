import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from tuning.bench import run as bench
from tuning.bench.run import NoRoom, file_bytes, run


class Usage(NamedTuple):
    free: int


def test_a_folder_without_room_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(NoRoom, match="max-bytes"):
        run(tmp_path, 1.0, 1 << 60, print)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("free", "given", "expected"),
    [
        (1 << 40, None, 4 << 30),
        (40 << 30, None, 4 << 30),
        (30 << 30, None, 3 << 30),
        (2560 << 20, None, 256 << 20),
        (30 << 30, 3 << 30, 3 << 30),
        (1 << 30, 1 << 20, 1 << 20),  # fewer than the default's fewest only if given
    ],
)
def test_a_file_is_a_tenth_of_what_is_free_at_most(
    free: int, given: int | None, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(free))
    assert file_bytes(tmp_path, given) == expected


@pytest.mark.parametrize(
    ("free", "given", "refusal"),
    [
        (
            30 << 30,
            4 << 30,
            "a tenth of what is free, 3.22 GB, is less than the test file of 4.29 GB; give less",
        ),
        (
            1 << 30,
            None,
            "a tenth of what is free, 107 MB, is less than the test file of 268 MB; give less by",
        ),
    ],
)
def test_a_file_larger_than_a_tenth_of_what_is_free_is_refused(
    free: int, given: int | None, refusal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(free))
    with pytest.raises(NoRoom, match=refusal):
        file_bytes(tmp_path, given)


def test_a_small_disk_is_measured_with_a_tenth_of_what_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(30 << 30))
    sizes: list[int] = []

    def seen(_folder: Path, _seconds: float, max_bytes: int) -> None:
        sizes.append(max_bytes)
        raise OSError(5, "no more")

    monkeypatch.setattr(bench, "measure_disk", seen)
    with pytest.raises(OSError, match="no more"):
        run(tmp_path, 0.05, None, print)
    assert sizes == [3 << 30]


def test_all_of_it_makes_coefficients_that_say_where_they_are_from(tmp_path: Path) -> None:
    reported: list[str] = []
    measured = run(tmp_path, 0.05, 1 << 20, reported.append)
    assert measured.measured
    assert measured.origin.startswith("kbroker tune bench on ")
    assert measured.directory == str(tmp_path)
    assert len(reported) == 4 + any("guessed" in line for line in reported)

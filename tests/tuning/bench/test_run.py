from pathlib import Path

import pytest

from tuning.bench.run import NoRoom, run


def test_a_folder_without_room_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(NoRoom, match="most-bytes"):
        run(tmp_path, 1.0, 1 << 60, print)
    assert not list(tmp_path.iterdir())


def test_all_of_it_makes_coefficients_that_say_where_they_are_from(tmp_path: Path) -> None:
    reported: list[str] = []
    measured = run(tmp_path, 0.05, 1 << 20, reported.append)
    assert measured.measured
    assert measured.origin.startswith("kbroker tune bench on ")
    assert measured.directory == str(tmp_path)
    assert len(reported) == 4 + any("guessed" in line for line in reported)

"""What is renamed for deletion goes when its time has come, and not before."""

from pathlib import Path

from kbroker.io.partition.deletions import Deletions, remove


def test_paths_come_due_in_order() -> None:
    waiting = Deletions()
    assert waiting.take_due(100) == []
    waiting.add(["b", "c"], 5, 15)
    waiting.add(["a"], 0, 10)
    assert waiting.take_due(9) == []
    assert waiting.take_due(10) == ["a"]
    assert waiting.take_due(100) == ["b", "c"]
    assert waiting.take_due(100) == []


def test_a_clock_that_is_set_back_lets_no_path_wait_for_longer_than_its_delay() -> None:
    """The space of deleted segments was not given back until the clock had caught up."""
    waiting = Deletions()
    waiting.add(["a"], 1_000_000, 60)
    waiting.add(["b"], 1_000_010, 100)
    assert waiting.take_due(1_000_020) == []
    waiting.add(["c"], 5000, 10)
    assert waiting.take_due(5001) == []
    assert waiting.take_due(5010) == ["c"]
    assert waiting.take_due(5061) == ["a"]
    assert waiting.take_due(5101) == ["b"]


def test_due_files_are_removed_beside_the_appends(tmp_path: Path) -> None:
    waiting = Deletions()
    assert waiting.remove_due(100) is None
    for name in ("old", "young"):
        (tmp_path / name).write_text("")
    waiting.add([str(tmp_path / "old")], 0, 10)
    waiting.add([str(tmp_path / "young")], 0, 20)
    removed = waiting.remove_due(10)
    assert removed is not None
    removed.result(120)
    assert [path.name for path in tmp_path.iterdir()] == ["young"]


def test_files_and_folders_are_removed_and_gone_ones_are_no_error(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "x").write_text("")
    (tmp_path / "file").write_text("")
    remove([str(tmp_path / name) for name in ("folder", "none", "file")])
    assert not list(tmp_path.iterdir())


def test_folders_that_another_process_had_deleted_are_swept_away_when_they_are_old_enough(
    tmp_path: Path,
) -> None:
    names = ("t-0.0123-delete", "t-0", "t-1.0123-future", "t-delete-0", "t-2.0123-stray", "x-delete")
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").write_text("")
    waiting = Deletions()
    renamed_ns = (tmp_path / names[0]).stat().st_ctime_ns
    waiting.sweep([str(tmp_path)], renamed_ns - 1).result(120)
    assert {path.name for path in tmp_path.iterdir()} == set(names)
    renamed_ns = max((tmp_path / name).stat().st_ctime_ns for name in names)
    waiting.sweep([str(tmp_path / "none"), str(tmp_path)], renamed_ns).result(120)
    assert {path.name for path in tmp_path.iterdir()} == set(names[1:])

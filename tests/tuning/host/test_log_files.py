from pathlib import Path

from tuning.host.log_files import held_bytes


def test_files_of_partitions_are_counted_and_what_is_not_there_is_nothing(tmp_path: Path) -> None:
    (tmp_path / "a-0").mkdir()
    (tmp_path / "a-0" / "0.log").write_bytes(b"x" * 100_000)
    (tmp_path / "meta.properties").write_bytes(b"x" * 10)
    (tmp_path / "link").symlink_to("/usr")
    assert 100_000 <= held_bytes([str(tmp_path), str(tmp_path / "none")]) < 200_000

"""The streaming job's journal: a micro-batch counts once, a torn line never."""

from pathlib import Path

from spark_validation.live.journal import Journal


def test_written_entries_are_read_after_a_restart_and_count_once(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "kept" / "sent.jsonl")
    assert journal.add(0, {"reads": 5})
    assert not journal.add(0, {"reads": 5})
    journal.close()
    again = Journal(tmp_path / "kept" / "sent.jsonl")
    assert again.entries == [{"batch": 0, "reads": 5}]
    assert not again.add(0, {"reads": 5})
    assert again.add(1, {"reads": 6})


def test_a_torn_line_was_never_committed(tmp_path: Path) -> None:
    path = tmp_path / "sent.jsonl"
    path.write_bytes(b'{"batch": 0, "reads": 5}\n{"batch": 1, "re')
    journal = Journal(path)
    assert [entry["batch"] for entry in journal.entries] == [0]
    assert journal.add(1, {"reads": 6})
    journal.close()
    assert [entry["batch"] for entry in Journal(path).entries] == [0, 1]

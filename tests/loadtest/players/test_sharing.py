"""How long members of a share group read on after a fault."""

import json
from pathlib import Path

import pytest

from loadtest.players.sharing import LOCK_S, free_ns


def test_without_faults_nothing_is_waited_for(tmp_path: Path) -> None:
    assert free_ns(tmp_path) == 0
    (tmp_path / "faults.jsonl").touch()
    assert free_ns(tmp_path) == 0


def test_records_of_a_lost_answer_are_free_a_lock_after_the_last_fault(tmp_path: Path) -> None:
    rows = [{"fault": "reset", "begin_ns": 1, "end_ns": end_ns} for end_ns in (5, 70, 6)]
    (tmp_path / "faults.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert free_ns(tmp_path) == pytest.approx(70 + LOCK_S * 1e9, abs=1)

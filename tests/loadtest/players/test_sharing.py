"""How long members of a share group read on after a fault."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from loadtest.history import ShareAck
from loadtest.players.sharing import LOCK_S, MAX_DELIVERIES, SharingPlayer, free_ns


def test_without_faults_nothing_is_waited_for(tmp_path: Path) -> None:
    assert free_ns(tmp_path) == 0
    (tmp_path / "faults.jsonl").touch()
    assert free_ns(tmp_path) == 0


def test_records_of_a_lost_answer_are_free_a_lock_after_the_last_fault(tmp_path: Path) -> None:
    rows = [{"fault": "reset", "begin_ns": 1, "end_ns": end_ns} for end_ns in (5, 70, 6)]
    (tmp_path / "faults.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert free_ns(tmp_path) == pytest.approx(70 + LOCK_S * 1e9, abs=1)


@pytest.mark.parametrize(
    ("drawn", "deliveries", "ack"),
    [
        (0.0, 1, ShareAck.RELEASE),
        (0.0, None, ShareAck.RELEASE),
        (0.049, MAX_DELIVERIES - 1, ShareAck.RELEASE),
        (0.049, MAX_DELIVERIES, ShareAck.ACCEPT),
        (0.05, 1, ShareAck.ACCEPT),
        (0.98, 1, ShareAck.ACCEPT),
        (0.981, 1, ShareAck.REJECT),
        (0.999, MAX_DELIVERIES, ShareAck.REJECT),
    ],
)
def test_few_records_are_released_or_rejected_and_none_for_the_last_time(
    drawn: float, deliveries: int | None, ack: ShareAck
) -> None:
    member: Any = object.__new__(SharingPlayer)
    member.random = SimpleNamespace(random=lambda: drawn)
    assert member._decide(SimpleNamespace(delivery_count=lambda: deliveries)) is ack

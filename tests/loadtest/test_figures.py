"""Figures of a run: sums over the pages of its players, and what grew between two readings."""

from pathlib import Path

import numpy as np
import pytest

from loadtest.figures import Figures, Pages, interval
from loadtest.histogram import count
from loadtest.page import Page, Slot, Times

SUMMED = {
    "sent": Slot.SENT,
    "acked": Slot.ACKED,
    "failed": Slot.FAILED,
    "seen": Slot.SEEN,
    "acked_bytes": Slot.ACKED_BYTES,
    "seen_bytes": Slot.SEEN_BYTES,
    "committed": Slot.COMMITTED,
    "aborted": Slot.ABORTED,
    "waiting": Slot.WAITING,
    "cpu_ns": Slot.CPU_NS,
}


def page(folder: Path, name: str, **words: int) -> Page:
    made = Page(folder / "pages" / f"{name}.page", create=True)
    for word, value in words.items():
        made[Slot[word]] = value
    return made


def test_each_figure_is_the_sum_of_its_word(tmp_path: Path) -> None:
    for factor, name in ((1, "a"), (1000, "b")):
        page(tmp_path, name, **{slot.name: factor * (1 + n) for n, slot in enumerate(SUMMED.values())})
    found = Pages(tmp_path).read()
    assert {name: getattr(found, name) for name in SUMMED} == {
        name: 1001 * (1 + n) for n, name in enumerate(SUMMED)
    }
    assert found.players == 2
    assert found.cpu_by_player == {"a": 10, "b": 10_000}


def test_a_player_that_has_ended_waits_no_more_and_its_sums_stay(tmp_path: Path) -> None:
    made = page(tmp_path, "a", ACKED=5, WAITING=7)
    pages = Pages(tmp_path)
    assert (pages.read().waiting, pages.read().players) == (7, 1)
    made[Slot.DONE] = 1
    made.unlink()
    found = pages.read()
    assert (found.acked, found.waiting, found.players) == (5, 0, 0)


def test_drains_are_not_part_of_the_load(tmp_path: Path) -> None:
    page(tmp_path, "drain-read_committed", SEEN=9)
    page(tmp_path, "consume-plain", SEEN=4)
    assert Pages(tmp_path).read().seen == 4


def test_times_of_all_players_are_added_by_kind(tmp_path: Path) -> None:
    for name in ("a", "b"):
        made = page(tmp_path, name)
        for which in Times:
            made.times(which)[which] = 3
    times = Pages(tmp_path).read().times
    assert [int(times[which][which]) for which in Times] == [6] * len(Times)
    assert [int(times[which].sum()) for which in Times] == [6] * len(Times)


def test_an_interval_has_what_grew_and_the_present_numbers_of_clients() -> None:
    before = Figures(
        acked=100, seen=50, failed=1, acked_bytes=1_000_000, committed=2, aborted=3, waiting=8, cpu_ns=10**9
    )
    before.cpu_by_player = {"a": 5 * 10**8, "b": 5 * 10**8}
    now = Figures(
        acked=350, seen=150, failed=4, acked_bytes=6_000_000, committed=7, aborted=4, waiting=6, players=2
    )
    now.cpu_ns = 4 * 10**9
    now.cpu_by_player = {"a": 10**9, "b": 2 * 10**9, "c": 10**9}
    now.times[Times.ACK] = count(np.full(100, 1_000_000))
    row = interval(now, before, 2.0)
    assert {name: row[name] for name in row if not name.endswith("_ms")} == {
        "acked_per_s": 125.0,
        "seen_per_s": 50.0,
        "acked_mb_per_s": 2.5,
        "not_acked": 3,
        "committed": 5,
        "aborted": 1,
        "waiting": 6,
        "clients": 2,
        "clients_cpu_percent": 150.0,
        "busiest_client": "b",
        "busiest_client_cpu_percent": 75.0,
    }
    assert row["ack_p50_ms"] == pytest.approx(1.0, rel=0.03)
    assert row["ack_p99.9_ms"] == row["ack_p50_ms"]
    assert row["delay_p99_ms"] is None
    assert row["end_to_end_p90_ms"] is None


def test_an_interval_has_only_the_times_of_its_own_requests() -> None:
    before, now = Figures(), Figures()
    before.times[Times.ACK] = count(np.full(1000, 1_000_000))
    now.times[Times.ACK] = before.times[Times.ACK] + count(np.full(10, 64_000_000))
    row = interval(now, before, 1.0)
    assert row["ack_p50_ms"] == pytest.approx(64.0, rel=0.03)
    assert row["busiest_client"] == ""
    assert row["busiest_client_cpu_percent"] == 0.0

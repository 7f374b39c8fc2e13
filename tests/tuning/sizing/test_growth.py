"""Months of a workload that grows."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from tests.tuning.fakes import carrying, situation
from tuning.sizing.answer import answer
from tuning.sizing.demand import needs
from tuning.sizing.growth import MAX_MONTHS, MONTH_S, growth
from tuning.sizing.growth_text import conclusion, growth_text
from tuning.sizing.page import page
from tuning.sizing.supply import FILLED, Supply

SUPPLY = Supply(100e12, 2e9, 2e9, 256e9, 12.5e9, 32.0, 1 << 20)


def test_the_months_end_with_the_first_that_does_not_fit(tmp_path: Path) -> None:
    base = carrying(situation(tmp_path), write_rate=10e6, groups=5)
    slow = replace(SUPPLY, network_rate=125e6)
    found = growth(base, slow, 5)
    ends_at = answer(base, slow).breaks_at
    assert ends_at is not None
    assert found.ends is not None
    assert found.ends.resource == "network"
    assert [each.fits for each in found.months] == [True] * (len(found.months) - 1) + [False]
    assert found.months[-2].write_rate <= ends_at < found.months[-1].write_rate
    assert found.months[-1].write_rate == pytest.approx(10e6 * 1.05 ** (len(found.months) - 1))
    at = needs(carrying(base, write_rate=found.months[-2].write_rate), slow)
    assert found.months[-2].shares == {need.resource: need.share for need in at}


def test_a_workload_that_does_not_fit_ends_today(tmp_path: Path) -> None:
    found = growth(carrying(situation(tmp_path), write_rate=500e6, retention_s=30 * 86400.0), SUPPLY, 5)
    assert len(found.months) == 1
    assert conclusion(found) == "disk space ends first: today, at 500 MB/s written."


def test_little_growth_ends_nothing_within_the_months_shown(tmp_path: Path) -> None:
    found = growth(carrying(situation(tmp_path), write_rate=1e6, retention_s=3600.0), SUPPLY, 0.1)
    assert (found.ends, len(found.months)) == (None, MAX_MONTHS + 1)
    assert growth_text(found).endswith(f"Nothing ends within {MAX_MONTHS} months.")


def test_records_that_are_kept_forever_fill_the_disk_month_by_month(tmp_path: Path) -> None:
    base = carrying(situation(tmp_path), write_rate=1e6, retention_s=math.inf)
    found = growth(base, replace(SUPPLY, disk_bytes=10e12), 10)
    assert found.ends is not None
    assert found.ends.resource == "disk space"
    shares = [each.shares["disk space"] for each in found.months]
    month = base.workload.copies * 1e6 * MONTH_S
    assert shares[:3] == pytest.approx([0, month / (10e12 * FILLED), 2.1 * month / (10e12 * FILLED)])
    assert shares[-1] > 1 >= shares[-2]  # type: ignore[operator]


def test_records_that_are_there_already_are_kept_forever_too(tmp_path: Path) -> None:
    base = carrying(situation(tmp_path), write_rate=1e6, retention_s=math.inf)
    held = replace(SUPPLY, disk_bytes=10e12, held_bytes=5e12)
    shares = [each.shares["disk space"] for each in growth(base, held, 10).months]
    month = base.workload.copies * 1e6 * MONTH_S
    assert shares[:2] == pytest.approx([5e12 / (10e12 * FILLED), (5e12 + month) / (10e12 * FILLED)])
    full = growth(base, replace(held, held_bytes=9e12), 10)
    assert conclusion(full) == "disk space ends first: today, at 1 MB/s written."


def test_the_table_has_a_row_for_each_month_and_a_column_for_each_resource(tmp_path: Path) -> None:
    found = growth(carrying(situation(tmp_path), write_rate=10e6), replace(SUPPLY, network_rate=None), 20)
    head, titles, *rows = growth_text(found).splitlines()
    assert head == "Growth of 20% a month:"
    for resource in found.months[0].shares:
        assert resource in titles
    assert len([row for row in rows if row[:5].strip().isdigit()]) == len(found.months)
    assert " ?" in rows[0]


def test_the_page_draws_a_line_for_each_known_resource(tmp_path: Path) -> None:
    base, supply = carrying(situation(tmp_path), write_rate=10e6), replace(SUPPLY, network_rate=None)
    found = growth(base, supply, 20)
    text = page(("10 MB/s written",), answer(base, supply), found)
    assert text.count("<polyline") == len(found.months[0].shares) - 1
    assert "month 0</text>" in text
    assert f"month {found.months[-1].number}</text>" in text
    assert "<polyline" not in page(("10 MB/s written",), answer(base, supply), None)


def test_names_at_the_ends_of_lines_do_not_overlap(tmp_path: Path) -> None:
    import re

    from tuning.verify.plot import LINE, lines_plot

    drawn = lines_plot("shares", {f"resource {n}": [0.1, 0.2] for n in range(6)})
    places = [float(y) for y in re.findall(r'y="([\d.]+)">resource', drawn)]
    assert len(places) == 6
    assert min(abs(a - b) for a in places for b in places if a != b) >= LINE - 0.11

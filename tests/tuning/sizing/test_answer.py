import math
from dataclasses import replace
from pathlib import Path

import pytest

from tests.tuning.fakes import carrying, situation
from tuning.coefficients import Coefficients
from tuning.render import answer_text
from tuning.sizing.answer import answer
from tuning.sizing.demand import needs
from tuning.sizing.supply import Supply

SUPPLY = Supply(100e12, 2e9, 2e9, 256e9, 12.5e9, 32.0, 1 << 20)


def test_it_names_what_ends_first_and_the_rate_at_which_it_does(tmp_path: Path) -> None:
    base = carrying(situation(tmp_path), write_rate=10e6, groups=5)
    slow = replace(SUPPLY, network_rate=125e6)
    found = answer(base, slow)
    assert found.fits
    assert found.first.resource == "network"
    assert found.breaks_at == pytest.approx(125e6 * 0.7 / 5)
    at = needs(carrying(base, write_rate=found.breaks_at), slow)
    assert max(need.share or 0.0 for need in at) == pytest.approx(1.0)


def test_a_workload_that_does_not_fit_is_reported(tmp_path: Path) -> None:
    found = answer(carrying(situation(tmp_path), write_rate=500e6, retention_s=30 * 86400.0), SUPPLY)
    assert not found.fits
    assert found.first.resource == "disk space"
    text = answer_text(found)
    assert "It does not fit." in text
    assert "another disk" in text


def test_a_host_that_fails_at_rest_has_no_rate(tmp_path: Path) -> None:
    found = answer(situation(tmp_path), replace(SUPPLY, files=100))
    assert (found.breaks_at, found.first.resource) == (None, "descriptors")
    assert "not enough even for" in answer_text(found)


def test_parts_that_the_model_leaves_out_are_reported(tmp_path: Path) -> None:
    base = carrying(situation(tmp_path), tls=True, durable=True, remote_clients=False)
    guessed = " ".join(answer(base, SUPPLY).notes)
    for word in ("conservative estimates", "TLS takes", "one to two syncs", "need cores, too"):
        assert word in guessed
    measured = replace(base, coefficients=Coefficients("measured"))
    assert "conservative estimates" not in " ".join(answer(measured, SUPPLY).notes)


def test_more_rate_keeps_more_processes_busy(tmp_path: Path) -> None:
    few = answer(carrying(situation(tmp_path), write_rate=10e6), SUPPLY)
    many = answer(carrying(situation(tmp_path), write_rate=2e9), SUPPLY)
    assert few.network_processes == 1
    assert 1 < many.network_processes <= 63


def test_a_result_limited_by_connections_is_not_attributed_to_the_disk(tmp_path: Path) -> None:
    """A rate that is too much for the disk does not make the disk the one that holds no
    connections."""
    busy = carrying(situation(tmp_path), write_rate=500e6, retention_s=30 * 86400.0, connections=20_000)
    found = answer(busy, replace(SUPPLY, files=10_000))
    assert (found.breaks_at, found.first.resource) == (None, "descriptors")
    assert "descriptors: not enough even for" in answer_text(found)


def test_endless_retention_hides_no_other_end(tmp_path: Path) -> None:
    found = answer(carrying(situation(tmp_path), write_rate=1e6, retention_s=math.inf), SUPPLY)
    assert not found.fits
    assert found.first.resource != "disk space"
    assert "Records are kept forever" in answer_text(found)


def test_it_fits_only_where_everything_is_known(tmp_path: Path) -> None:
    text = answer_text(answer(situation(tmp_path), replace(SUPPLY, network_rate=None)))
    assert "What is known fits. Not known: network." in text
    assert "It fits." not in text

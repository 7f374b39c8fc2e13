"""The model of many cores: fit, prediction, and the page."""

from pathlib import Path

import pytest

from bench.many_cores.model import (
    CONTROL,
    IO,
    MAX_UTILISATION,
    NETWORK,
    PARENT,
    Counts,
    Observation,
    errors,
    fit,
    wait_us,
)
from bench.many_cores.observing import role_of
from bench.many_cores.page import BEGIN, END, section
from bench.many_cores.samples import Samples

COUNTS = [Counts(1, 1), Counts(2, 1), Counts(1, 2), Counts(2, 2)]


def observed(counts: Counts, control_us: float = 0.0) -> Observation:
    """A broker whose network processes take 4 µs and 0.5 for each further IO worker, and so on."""
    cost = {
        NETWORK: 4 + 0.5 * (counts.io - 1),
        IO: 1 + 0.1 * (counts.network - 1),
        CONTROL: control_us,
        PARENT: 0.0,
    }
    return Observation(counts, cost, client_us=2.0, rate=100_000.0)


def test_a_fitted_line_predicts_other_observations() -> None:
    model = fit([observed(counts) for counts in COUNTS])
    assert (model.costs[NETWORK].alone_us, model.costs[NETWORK].per_peer_us) == pytest.approx((4, 0.5))
    assert model.cost_us(IO, Counts(8, 8)) == pytest.approx(1.7)
    assert errors(model, [observed(Counts(8, 8))]) == pytest.approx([0.0])


def test_no_process_gains_by_a_peer() -> None:
    falling = [Observation(counts, {NETWORK: 5.0 - counts.io}, 1, 1) for counts in COUNTS]
    assert fit(falling).costs[NETWORK].per_peer_us == 0


def test_the_first_bound_that_is_reached_is_the_rate() -> None:
    model = fit([observed(counts, control_us=2.0) for counts in COUNTS])
    rate, first = model.rate(Counts(1, 1), cores=64)
    assert (rate, first) == (pytest.approx(MAX_UTILISATION * 1e6 / 4), NETWORK)
    assert model.rate(Counts(8, 2), cores=64)[1] == CONTROL
    assert model.rate(Counts(8, 8), cores=1)[1] == "cores"


def test_a_single_process_ends_growth_where_it_is_busy() -> None:
    cores, role = fit([observed(counts, control_us=1.0) for counts in COUNTS]).serial_end()
    assert role == CONTROL
    assert cores == pytest.approx(6.0, rel=0.2)  # 4 + 1 + 1 µs in all, 1 of them in control
    assert fit([observed(counts) for counts in COUNTS]).serial_end()[0] == float("inf")


def test_the_best_counts_use_all_cores_with_few_processes() -> None:
    model = fit([observed(counts) for counts in COUNTS])
    best = model.best_counts(10)
    assert (
        model.rate(best, 10)[0]
        >= max(model.rate(Counts(n, m), 10)[0] for n in range(1, 11) for m in range(1, 11)) - 1
    )
    assert best.network > best.io


def test_a_queue_grows_without_bound_towards_full_use() -> None:
    assert wait_us(10, 0.5) == pytest.approx(5)
    assert wait_us(10, 0.9) == pytest.approx(45)


@pytest.mark.parametrize(
    ("title", "role"),
    [
        ("kbroker: network 3 ", NETWORK),
        ("kbroker: io 0", IO),
        ("kbroker: control", CONTROL),
        ("/usr/bin/python kbroker serve x", PARENT),
        ("kbroker: http", PARENT),
    ],
)
def test_a_role_is_named_by_the_title(title: str, role: str) -> None:
    assert role_of(title) == role


def test_the_page_names_every_work_and_its_errors(tmp_path: Path) -> None:
    works = ("single_records", "commits")
    found = {work: [observed(each, 1.5) for each in (*COUNTS, Counts(8, 8))] for work in works}
    samples = Samples({"cores": "2"}, found)
    samples.save(tmp_path / "samples.json")
    again = Samples.load(tmp_path / "samples.json")
    text = section(again)
    assert text == section(samples)
    assert text.startswith(BEGIN)
    assert text.endswith(END)
    assert text.count("| produce, one record a request | 8 + 8 | no |") == 1
    assert "control, at" in text


def test_rounds_become_medians() -> None:
    rounds = [Observation(Counts(1, 1), {NETWORK: cost}, 1, rate) for cost, rate in ((1, 5), (9, 6), (3, 7))]
    samples = Samples({}, {"x": rounds})
    (middle,) = samples.medians("x", fitted=True)
    assert (middle.cost_us[NETWORK], middle.rate) == (3, 6)
    assert samples.medians("x", fitted=False) == []

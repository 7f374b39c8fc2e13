"""The capacity of a host: its file, and costs that are scaled by it."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from tuning.coefficients import LOOP_CPU, TLS_CPU, BrokerCosts, Coefficients, WrongFile


def test_measured_values_come_back(tmp_path: Path) -> None:
    path = tmp_path / "host.json"
    made = Coefficients(origin="measured", directory="/d", write_rate=1e9, sync_p99_s=0.5)
    made.save(path)
    assert Coefficients.load(path) == made
    assert made.measured
    assert not Coefficients().measured


def test_values_that_a_file_lacks_are_guessed(tmp_path: Path) -> None:
    path = tmp_path / "host.json"
    path.write_text('{"tls_cpu": 2}')
    assert Coefficients.load(path) == replace(Coefficients(), tls_cpu=2)


@pytest.mark.parametrize("value", [1e-18, 1, 1e18])
def test_numbers_within_the_bounds_are_taken(tmp_path: Path, value: float) -> None:
    path = tmp_path / "host.json"
    path.write_text(json.dumps({"write_rate": value}))
    assert Coefficients.load(path).write_rate == value


@pytest.mark.parametrize("value", [0, -1, 1e-19, 1.1e18, float("nan"), float("inf"), True, "1", None, [1]])
def test_a_number_that_no_formula_can_use_is_refused_by_name(tmp_path: Path, value: object) -> None:
    path = tmp_path / "host.json"
    path.write_text(json.dumps({"write_rate": value}))
    with pytest.raises(WrongFile, match="write_rate cannot be"):
        Coefficients.load(path)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[]", "not an object"),
        ("{", "not a file of"),
        ('{"b": 1, "a": 1}', "unknown a, b"),
        ('{"origin": 1}', "origin"),
    ],
)
def test_a_file_of_something_else_is_refused(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "host.json"
    path.write_text(text)
    with pytest.raises(WrongFile, match=why):
        Coefficients.load(path)
    with pytest.raises(WrongFile, match="No such file"):
        Coefficients.load(tmp_path / "none")


def test_the_cpu_of_a_host_scales_costs_of_the_cpu_alone() -> None:
    here = Coefficients(send_cpu=LOOP_CPU / 4, receive_cpu=LOOP_CPU * 3 / 4, tls_cpu=TLS_CPU)
    assert asdict(BrokerCosts().on(here)) == pytest.approx(asdict(BrokerCosts()))
    slow = Coefficients(send_cpu=LOOP_CPU, receive_cpu=LOOP_CPU, tls_cpu=3 * TLS_CPU)
    plain, found = BrokerCosts(), BrokerCosts().on(slow)
    scaled = {name: getattr(found, name) / getattr(plain, name) for name in asdict(plain)}
    twice = dict.fromkeys(("in_cpu", "out_cpu", "request_cpu"), 2.0)
    thrice = dict.fromkeys(("tls_in_cpu", "tls_out_cpu"), 3.0)
    assert scaled == pytest.approx(dict.fromkeys(scaled, 1.0) | twice | thrice)

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tuning.cli import app
from tuning.coefficients import Coefficients


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No host.json of whoever runs the tests."""
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_check_reports_findings_as_json_and_by_its_exit_code(tmp_path: Path) -> None:
    result = run("check", "--dir", str(tmp_path), "--json", "--partitions", "7")
    told = json.loads(result.stdout)
    severities = {each["severity"] for each in told["findings"]}
    assert result.exit_code == int("serious" in severities)
    assert told["workload"]["partitions"] == 7
    assert len(told["findings"]) > 30


def test_check_is_text_for_people(tmp_path: Path) -> None:
    result = run("check", "--dir", str(tmp_path), "--all")
    assert "vm.swappiness" in result.stdout
    assert "workload: write_rate 5e+07 (assumed)" in result.stdout


def test_propose_gives_lines_that_the_broker_reads(tmp_path: Path) -> None:
    from kbroker.config.broker import BrokerConfig
    from kbroker.config.properties import parse

    result = run(
        "propose", "--dir", str(tmp_path), "--durable", "--connections", "5000", "--partitions", "30000"
    )
    pairs = parse(result.stdout)
    assert pairs["kbroker.write.caching"] == "false"
    assert pairs["log.dirs"] == str(tmp_path)
    BrokerConfig.load(pairs)


def test_size_says_whether_it_fits_and_uses_what_bench_wrote(tmp_path: Path) -> None:
    Coefficients("a bench", write_rate=2e9, cold_read_rate=2e9).save(tmp_path / "host.json")
    load = ("--rate", "1MB/s", "--retention", "1h")
    host = ("--disk", "1TB", "--nic", "1Gbit/s", "--memory", "64GiB", "--cores", "8")
    fits = run("size", "--dir", str(tmp_path), *load, *host)
    assert (fits.exit_code, "It fits." in fits.stdout, "careful guesses" in fits.stdout) == (0, True, False)
    large = run("size", "--dir", str(tmp_path), "--rate", "10GB/s", "--nic", "1Gbit/s", "--json")
    told = json.loads(large.stdout)
    assert (large.exit_code, told["fits"]) == (1, False)


def test_script_prints_and_changes_nothing(tmp_path: Path) -> None:
    assert run("script", "--dir", str(tmp_path)).stdout.startswith("#!/bin/sh\n")
    assert run("script", "--undo", "--dir", str(tmp_path)).stdout.startswith("#!/bin/sh\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("size", "--rate", "fast"), 64, "'fast' is not a rate"),
        (("check", "--override", "num.io.threads=none"), 64, "num.io.threads"),
        (("check", "--metrics", "127.0.0.1:1"), 69, "127.0.0.1:1"),
        (("check", "--coefficients", "none.json"), 64, "none.json"),
        (("bench", "--dir", "none"), 74, "none"),
        (("bench", "--dir", ".", "--most-bytes", "much"), 64, "'much' is not bytes"),
    ],
)
def test_what_is_wrong_is_one_line_and_a_code(arguments: tuple[str, ...], code: int, text: str) -> None:
    result = run(*arguments)
    assert result.exit_code == code
    assert text in result.stderr
    assert len(result.stderr.splitlines()) == 1

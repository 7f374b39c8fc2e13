import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tuning.cli import app
from tuning.coefficients import Coefficients


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No host.json of the user who runs the tests."""
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_check_reports_findings_as_json_and_by_its_exit_code(tmp_path: Path) -> None:
    result = run("check", "--dir", str(tmp_path), "--json", "--partitions", "7")
    reported = json.loads(result.stdout)
    severities = {each["severity"] for each in reported["findings"]}
    assert result.exit_code == int("serious" in severities)
    assert reported["workload"]["partitions"] == 7
    assert len(reported["findings"]) > 30


def test_check_is_text_for_people(tmp_path: Path) -> None:
    result = run("check", "--dir", str(tmp_path), "--all")
    assert "vm.swappiness" in result.stdout
    assert "workload: 50 MB/s written (assumed)" in result.stdout


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
    assert (fits.exit_code, "It fits." in fits.stdout, "conservative estimates" in fits.stdout) == (
        0,
        True,
        False,
    )
    large = run("size", "--dir", str(tmp_path), "--rate", "10GB/s", "--nic", "1Gbit/s", "--json")
    reported = json.loads(large.stdout)
    assert (large.exit_code, reported["fits"]) == (1, False)


def test_size_shows_the_months_until_a_resource_ends(tmp_path: Path) -> None:
    load = ("--rate", "40MB/s", "--retention", "1h", "--consumers", "1", "--disk", "1TB", "--memory", "64GiB")
    arguments = ("size", "--dir", str(tmp_path), *load, "--nic", "1Gbit/s", "--cores", "8", "--growth", "10%")
    file = tmp_path / "size.html"
    result = run(*arguments, "--html", str(file))
    # 40 MB/s * 1.1^9 is above 70% of 1 Gbit/s, 87.5 MB/s
    assert "network ends first: within 9 months, at 94.3 MB/s written." in result.stdout
    page = file.read_text()
    assert "network ends first: within 9 months" in page
    assert "<polyline" in page
    ends = json.loads(run(*arguments, "--json").stdout)["growth"]["ends"]
    assert ends == {"month": 9, "resource": "network"}
    assert "Growth" not in run(*arguments[:-2]).stdout


def test_script_prints_and_changes_nothing(tmp_path: Path) -> None:
    assert run("script", "--dir", str(tmp_path)).stdout.startswith("#!/bin/sh\n")
    assert run("script", "--undo", "--dir", str(tmp_path)).stdout.startswith("#!/bin/sh\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        *(
            (("size", f"--{option}", "fast"), 2, f"--{option}: 'fast' is not ")
            for option in ("rate", "retention", "lag", "batch", "disk", "memory", "nic", "growth")
        ),
        (("check", "--override", "num.io.threads=none"), 2, "num.io.threads"),
        (("check", "--metrics", "127.0.0.1:1"), 69, "/metrics: Connection refused; --metrics takes the broker's kb"),
        (("check", "--coefficients", "none.json"), 2, "none.json"),
        (("bench", "--dir", "none"), 74, "kbroker tune: none: No such file or directory"),
        (("bench", "--dir", ".", "--out", "none/host.json"), 74, "kbroker tune: none/host.json: No such file"),
        *(
            (("verify", "--dir", ".", option, "none/file"), 74, "kbroker tune: none/file: No such file")
            for option in ("--json", "--html", "--out")
        ),
        (("check", "--dir", ".", "--watch", "nan"), 2, "--watch must be from 0 to 600"),
        (("check", "--dir", ""), 2, "--dir is empty"),
        (("bench", "--dir", ".", "--seconds", "nan"), 2, "--seconds must be from 1 to 600"),
        *(
            (("size", "--dir", ".", f"--{option}", value), 2, f"--{option} must be")
            for option, values in {
                "rate": ("0", "0MB/s"), "disk": ("0", "0TB"), "memory": ("0",), "nic": ("0Gbit/s",), "batch": ("0",),
                "cores": ("0", "-1", "nan", "inf"), "partitions": ("0", "-1", "99999999999"), "consumers": ("-1",),
                "lagging": ("-1",), "copies": ("0", "-1"), "connections": ("-1",), "rtt": ("-1", "nan", "inf"),
            }.items()
            for value in values
        ),
        *(
            (("size", "--dir", ".", f"--{option}", "9" * 400 + unit), 2, "is too much to be")
            for option, unit in (("rate", "GB/s"), ("disk", "TB"), ("retention", "d"), ("lag", "s"))
        ),
        (("bench", "--dir", ".", "--max-bytes", "much"), 2, "--max-bytes: 'much' is not bytes"),
        (("bench", "--dir", ".", "--most-bytes", "1"), 2, "--max-bytes must be at least 1MiB"),
        (("bench", "--dir", ".", "--most-bytes", "1", "--max-bytes", "1"), 2, "is the former name of --max-bytes"),
        (("bench", "--dir", ".", "--seconds", "0"), 2, "--seconds must be from 1 to 600"),
        *(
            (("bench", "--dir", ".", "--max-bytes", value), 2, "--max-bytes must be at least 1MiB")
            for value in ("0", "1", "1048575")
        ),
        *((("size", "--dir", ".", "--growth", value), 2, "--growth must be") for value in ("0", "-5%", "nan", "1001%")),
        (("size", "--dir", ".", "--html", "none/file"), 74, "kbroker tune: none/file: No such file"),
        (("verify", "--dir", ".", "--minutes", "0"), 2, "--minutes must be from 1 to 1440"),
        (("verify", "--dir", ".", "--try", "listeners=x"), 2, "makes no difference to this load"),
        (("verify", "--dir", ".", "--try", "kbroker.slice.us=-1"), 2, "kbroker.slice.us"),
    ],
)  # fmt: skip
def test_a_wrong_command_ends_with_one_line_and_a_code(
    arguments: tuple[str, ...], code: int, text: str
) -> None:
    result = run(*arguments)
    assert result.exit_code == code
    assert text in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_endless_retention_does_not_fit_and_says_when_the_disk_is_full(tmp_path: Path) -> None:
    load = ("--rate", "1MB/s", "--retention", "forever", "--disk", "79GB", "--nic", "10Gbit/s")
    result = run("size", "--dir", str(tmp_path), *load)
    assert result.exit_code == 1
    assert "It does not fit." in result.stdout
    assert "full in 17.6 h" in result.stdout
    assert "It keeps 1 network process and 1 IO worker busy." in result.stdout
    assert json.loads(run("size", "--dir", str(tmp_path), *load, "--json").stdout)["fits"] is False


def test_propose_asks_for_what_it_would_have_to_guess(tmp_path: Path) -> None:
    guessed = run("propose", "--dir", str(tmp_path)).stdout
    assert "Left out" in guessed
    assert "--rate" in guessed
    assert "--metrics" in guessed
    reported = ("--rate", "1kB/s", "--partitions", "1", "--consumers", "1", "--batch", "1kB", "--rtt", "0.1")
    assert "Left out" not in run("propose", "--dir", str(tmp_path), *reported).stdout


def test_verify_shows_its_plan_and_leaves_everything_as_it_is(tmp_path: Path) -> None:
    result = run(
        "verify", "--dir", str(tmp_path), "--try", "kbroker.slice.us=0", "--minutes", "5", "--dry-run"
    )
    assert result.exit_code == 0
    assert "5 turns with and 5 without each change, alternately: about" not in result.stdout  # time for more
    assert "try   kbroker.slice.us=0  (the broker of the turn; now the default)" in result.stdout
    assert not list(tmp_path.iterdir())


def test_verify_explains_how_to_continue_a_killed_run(tmp_path: Path) -> None:
    (tmp_path / "kbroker-tune-undo.sh").touch()
    result = run("verify", "--dir", str(tmp_path), "--try", "kbroker.slice.us=0", "--yes")
    assert result.exit_code == 74
    assert "run it with sh, then remove it" in result.stderr

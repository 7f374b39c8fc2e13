"""The tier runner: a failure is a failure, whatever a second run says, and an empty tier proves
nothing."""

import json
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest

from tests import skips, tiers

TEST = "tests/a/test_b.py::test_c"
SKIPPING = """
import pytest


@pytest.mark.parametrize("number", [1, 2])
def test_that_skips(number):
    pytest.skip("no disk: 7 of 9")


@pytest.mark.skip(reason="not here")
def test_that_is_marked():
    pass


def test_that_passes():
    pass
"""
HANGING = """
import threading

from tests import hangs


def pytest_configure(config):
    config.pluginmanager.register(hangs)


def pytest_collection_finish():
    print("it hangs now", flush=True)
    threading.Event().wait()
"""
FLAKY = """
from pathlib import Path


def test_that_passes_at_its_second_try():
    first = not Path("tried").exists()
    Path("tried").touch()
    print("printed by the", "first" if first else "second", "try")
    assert not first
"""
WITH_A_BROKER = """
from tests.conftest import RUNNING, pytest_runtest_makereport


class Node:
    bootstrap = "127.0.0.1:9092"

    def logs(self):
        return "a line of the broker's log"


RUNNING.append(Node())
"""
ROOT = tiers.ROOT


class Runs:
    """Stands for pytest: gives one result after the other and writes what failed in each."""

    def __init__(self, cache: Path, *results: tuple[int, int, list[str]]) -> None:
        self.cache = cache
        self.results = list(results)
        self.skipped: Counter[str] = Counter()

    def __call__(self, *arguments: str, limit_s: float = 0) -> tuple[int, int, Counter[str]]:
        code, passed, failed = self.results.pop(0)
        self.cache.write_text(json.dumps(dict.fromkeys(failed, True)))
        return code, passed, self.skipped


@pytest.fixture(autouse=True)
def a_collection_of_this_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one of the run that these tests belong to stays."""
    monkeypatch.setattr(tiers, "kept", lambda expressions: {})


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tiers, "LAST_FAILED", tmp_path / "lastfailed")
    monkeypatch.setattr(tiers, "KNOWN_FLAKY", tmp_path / "flaky.txt")
    monkeypatch.setattr(tiers, "LAST_SECONDS", tmp_path / "cache" / "seconds.json")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(
        tiers, "files_of", lambda expressions: {tier: ["tests/a/test_b.py"] for tier in expressions}
    )
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("KBROKER_FLAKY_ALLOWED", raising=False)
    return tmp_path / "lastfailed"


def test_a_run_that_passes_ends_with_0(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tiers, "pytest_run", Runs(cache, (0, 9, [])))
    assert tiers.main(["fast"]) == 0
    assert "[tests] 0 flaky" in capsys.readouterr().out


def test_a_run_says_which_tier_is_next_and_from_the_second_run_on_what_is_left(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = []
    for _ in range(2):
        monkeypatch.setattr(tiers, "pytest_run", Runs(cache, (0, 9, []), (0, 9, [])))
        assert tiers.main(["fast", "short"]) == 0
        lines += [line for line in capsys.readouterr().out.splitlines() if " of 2" in line]
    assert lines[0].startswith("[tests] 1 of 2; fast: units")
    assert lines[2].startswith("[tests] 1 of 2, 0 s left as of the last run; fast: units")
    assert tiers.announcement("short", ["fast", "short"], {"fast": 170, "short": 300}).startswith(
        "\n[tests] 2 of 2, 300 s left"
    )


def test_a_test_that_passes_at_a_second_try_fails_the_run_by_name(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tiers, "pytest_run", Runs(cache, (1, 9, [TEST]), (0, 1, [])))
    assert tiers.main(["crash"]) == 1
    printed = capsys.readouterr().out
    assert f"[tests] FLAKY {TEST}" in printed
    assert "[tests] 1 flaky" in printed


def test_a_flaky_test_has_the_output_of_both_tries(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr(tiers, "ROOT", tmp_path)
    monkeypatch.setattr(tiers, "CACHE", tmp_path / "aside")
    monkeypatch.setattr(tiers, "LAST_FAILED", tmp_path / "aside" / "v" / "cache" / "lastfailed")
    monkeypatch.setattr(tiers, "chosen", lambda *_: ("-m", "not crash"))
    (tmp_path / "conftest.py").write_text(WITH_A_BROKER)
    (tmp_path / "test_flaky.py").write_text(FLAKY)
    assert tiers.main(["plain"]) == 1
    first, again, second = capsys.readouterr().out.partition("they run once more")
    assert again
    assert "printed by the first try" in first
    assert "printed by the second try" in second
    assert "FLAKY test_flaky.py::test_that_passes_at_its_second_try" in second
    assert "a line of the broker's log" in first
    assert "a line of the broker's log" in second


def test_a_known_flaky_test_is_counted_and_does_not_fail_the_run(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tiers.KNOWN_FLAKY.write_text(f"# a comment\n{TEST}  a client library forgets its time-out\n")
    monkeypatch.setattr(tiers, "pytest_run", Runs(cache, (1, 9, [TEST]), (0, 1, [])))
    assert tiers.main(["crash"]) == 0
    assert f"[tests] FLAKY {TEST}" in capsys.readouterr().out


def test_a_known_flaky_test_that_fails_twice_fails_the_run(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiers.KNOWN_FLAKY.write_text(f"{TEST}  a client library forgets its time-out\n")
    monkeypatch.setattr(tiers, "pytest_run", Runs(cache, (1, 9, [TEST]), (1, 0, [TEST])))
    assert tiers.main(["crash"]) == 1


@pytest.mark.parametrize(
    ("tier", "allowed", "code"), [("kafka", "1", 0), ("kafka", "0", 1), ("crash", "1", 1), ("spark", "1", 1)]
)
def test_some_flaky_tests_may_be_allowed_but_none_that_could_hide_a_lost_record(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tier: str, allowed: str, code: int
) -> None:
    monkeypatch.setenv("KBROKER_FLAKY_ALLOWED", allowed)
    monkeypatch.setattr(tiers, "pytest_run", Runs(cache, (1, 9, [TEST]), (0, 1, [])))
    assert tiers.main([tier]) == code


def test_a_test_that_fails_twice_is_not_allowed(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBROKER_FLAKY_ALLOWED", "9")
    monkeypatch.setattr(tiers, "pytest_run", Runs(cache, (1, 9, [TEST]), (1, 0, [TEST])))
    assert tiers.main(["kafka"]) == 1


def test_an_empty_tier_fails_in_ci_alone(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No jars, no PySpark or no compiler must not look like success where everything is meant to
    run."""
    for ci, code in (("", 0), ("true", 1)):
        monkeypatch.setenv("CI", ci)
        results: list[tuple[int, int, list[str]]] = [(tiers.NOTHING_COLLECTED, 0, []), (0, 0, [])]
        for result in results:
            monkeypatch.setattr(tiers, "pytest_run", Runs(cache, result))
            assert tiers.main(["kafka"]) == code


@pytest.mark.parametrize(
    ("tier", "reason", "ci", "code"),
    [
        ("kafka", "no Apache Kafka: no jars", "true", 1),
        ("kafka", "no Apache Kafka: no jars", "", 0),
        ("kafka", "Apache Kafka refuses them", "true", 0),
        ("plain", "about compiled kernels", "true", 0),
        ("slow", "about compiled kernels", "true", 1),
        ("crash", "no loop device can be mounted: mount: failed", "true", 0),
    ],
)
def test_a_skipped_test_fails_a_tier_in_ci_unless_its_reason_is_listed(
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tier: str,
    reason: str,
    ci: str,
    code: int,
) -> None:
    monkeypatch.setenv("CI", ci)
    runs = Runs(cache, (0, 9, []))
    runs.skipped[reason] = 3
    monkeypatch.setattr(tiers, "pytest_run", runs)
    assert tiers.main([tier]) == code
    printed = capsys.readouterr().out
    assert f"[tests] SKIPPED 3 in {tier}, " in printed
    assert ("FAILED (skipped)" in printed) == bool(code)


def test_flaky_tests_that_are_allowed_do_not_hide_a_skipped_one(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")
    monkeypatch.setenv("KBROKER_FLAKY_ALLOWED", "9")
    runs = Runs(cache, (1, 9, [TEST]), (0, 1, []))
    runs.skipped["no openssl to make certificates with"] = 1
    monkeypatch.setattr(tiers, "pytest_run", runs)
    assert tiers.main(["compat"]) == 1


def test_the_reasons_of_skipped_tests_are_those_that_pytest_prints(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tiers, "ROOT", tmp_path)
    monkeypatch.setattr(tiers, "CACHE", tmp_path / "cache")
    (tmp_path / "test_a.py").write_text(SKIPPING)
    code, passed, skipped = tiers.pytest_run("-ra")
    assert (code, passed, skipped) == (0, 1, {"no disk: 7 of 9": 2, "not here": 1})


def test_two_runs_in_one_tree_keep_what_failed_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "test_a.py").write_text("def test_that_fails():\n    assert False\n")
    monkeypatch.setattr(tiers, "ROOT", tmp_path)
    monkeypatch.setattr(tiers, "CACHE", tmp_path / "aside")
    assert tiers.pytest_run()[0] == tiers.SOME_FAILED
    kept = json.loads((tmp_path / "aside" / "v" / "cache" / "lastfailed").read_text())
    assert list(kept) == ["test_a.py::test_that_fails"]
    assert not (tmp_path / ".pytest_cache").exists()


def test_files_of_tests_stay_only_if_one_failed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tiers, "ROOT", tmp_path)
    monkeypatch.setattr(tiers, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "pytest.ini").write_text("[pytest]\ntmp_path_retention_policy = failed\n")
    (tmp_path / "test_a.py").write_text("def test_a(tmp_path):\n    (tmp_path / 'a').write_text('a')\n")
    assert tiers.pytest_run()[0] == 0
    assert not list(tmp_path.glob("kbroker-tests-*"))
    (tmp_path / "test_b.py").write_text(
        "def test_b(tmp_path):\n    (tmp_path / 'b').write_text('b')\n    assert False\n"
    )
    assert tiers.pytest_run()[0] == tiers.SOME_FAILED
    (folder,) = tmp_path.glob("kbroker-tests-*")
    assert f"[tests] files of tests that failed: {folder}" in capsys.readouterr().out
    assert [found.name for found in folder.rglob("?") if found.is_file()] == ["b"]


def test_an_end_without_a_summary_is_named(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The limit of tests/hangs.py ends a process with 1, as a failed test does."""
    runs = Runs(cache, (tiers.SOME_FAILED, 0, []))
    monkeypatch.setattr(tiers, "pytest_run", runs)
    assert tiers.main(["slow"]) == 1
    assert "[tests] slow: pytest ended without a summary" in capsys.readouterr().out


def test_every_allowed_reason_has_a_kind_a_tier_and_a_cause() -> None:
    for each in skips.allowances():
        assert each.kind in skips.KINDS
        assert each.tier == "any" or each.tier in tiers.TIERS
        assert each.reason
        assert each.cause


def test_a_tier_that_fails_does_not_keep_the_later_ones_from_running(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = Runs(cache, (2, 0, []), (0, 3, []))
    monkeypatch.setattr(tiers, "pytest_run", runs)
    assert tiers.main(["fast", "slow"]) == 1
    assert not runs.results
    assert "failed: fast" in capsys.readouterr().out


def test_every_tier_takes_part_of_one_expression_of_markers() -> None:
    """`short` is the only tier whose tests belong to another one, too."""
    markers = {"slow", "compat", "kafka", "crash", "fuzz", "spark", "long"}
    assert set(tiers.TIERS) == {"fast", "plain", "short", *markers}


DEADLY = """
import ctypes
import time


def test_that_ends_while_others_run():
    time.sleep(1)
    ctypes.string_at(8)
"""


@pytest.mark.slow
def test_a_process_that_dies_ends_the_tier_and_is_no_flaky_test(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tiers, "ROOT", tmp_path)
    (tmp_path / "test_deadly.py").write_text(DEADLY)
    (tmp_path / "test_short.py").write_text("def test_that_passes():\n    pass\n")
    monkeypatch.setattr(tiers, "chosen", lambda *_: tiers.PARALLEL)
    monkeypatch.setenv("KBROKER_FLAKY_ALLOWED", "2")
    assert tiers.main(["plain"]) == 1
    printed = capsys.readouterr().out
    assert "FAILED (a process died)" in printed
    assert printed.count("node down") == 1, "another process took its place"
    assert "they run once more" not in printed


def test_a_tier_that_does_not_end_is_ended(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tiers, "ROOT", tmp_path)
    monkeypatch.setattr(tiers, "TIER_LIMIT_S", 2.0)
    monkeypatch.setattr(tiers, "chosen", lambda *_: ())
    (tmp_path / "test_endless.py").write_text("import time\n\n\ndef test_endless():\n    time.sleep(50)\n")
    assert tiers.main(["plain"]) == 1
    assert "FAILED (-" in capsys.readouterr().out  # by the signal for stacks if it has not begun yet


def test_the_stacks_of_a_tier_that_hangs_are_printed(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(HANGING)
    command = [sys.executable, "-m", "pytest", "-s", "--rootdir", str(tmp_path), str(tmp_path)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert any("it hangs now" in line for line in process.stdout)
        tiers.end_with_stacks(process.pid)
        _, stacks = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert "in pytest_collection_finish" in stacks

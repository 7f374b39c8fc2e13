"""Runs the tests tier by tier: `python -m tests.tiers fast short ...`; prints its steps and their
times. Every test belongs to exactly one tier, apart from `short`, which is a cross-section of the
tiers that start brokers. After a failed tier the later ones still run; the exit code is 1 if any
failed.

A failure is a failure. What failed runs once more for the report alone: a test that passes then is
FLAKY, is printed by name with the output of both tries, and fails the run unless tests/flaky.txt
lists it with its cause. With --after-short the tiers leave out the tests that `short` has run,
except the kills, of which they run more.

KBROKER_FLAKY_ALLOWED=N lets a run pass with up to N of them, but never with one in a tier of
STRICT, where a second try could hide a lost record. With CI=true a tier in which no test ran fails,
and so does one that skips a test for a reason that tests/skips.txt does not list.

KBROKER_LONG_PART=2/3: of the files of the tier `long` only the second third, where the time is too
short for all of them.

KBROKER_TIERS_CACHE=FOLDER, relative to the root, keeps what failed apart from that of another run
in the same tree at the same time.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests import hangs, skips
from tests.tier_files import files_of, kept, longest_first, noting, part_of, with_bytecode

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / (os.environ.get("KBROKER_TIERS_CACHE") or ".pytest_cache")
LAST_FAILED = CACHE / "v" / "cache" / "lastfailed"
LAST_SECONDS = CACHE / "tier-seconds.json"
SECOND_TRY = ("--last-failed", "--last-failed-no-failures=none", "-raP")  # P: also the output of what passes
KNOWN_FLAKY = ROOT / "tests" / "flaky.txt"

# A process that dies ends the run. A new one in its place would wait for work for good once the
# other one knows that none is left.
PARALLEL = ("-n", "2", "--dist", "loadfile", "--max-worker-restart", "0")
# These wait for other programs half of their time. Their modules run in the order of
# `longest_first`: with most tests first, the end would be one process with a long module.
WAITING = (*PARALLEL, "--no-loadscope-reorder")
# Real clients, Apache Kafka's tools and brokers that start after a kill leave two processors idle
# for a third to a half of the time with two of them, and for a quarter with three.
CROWDED = ("-n", "3", *WAITING[2:])
FULL = ("-n", "4", *WAITING[2:])
# One run of Spark plans most of its time, with one thread. A whole judgement takes minutes on a
# busy machine; a limit that ends it leaves no gateway to Java for the tests after it. The module
# with most tests is the longest and comes first.
JUDGING = (*PARALLEL, "--timeout", "1200")

PLAIN_FOLDERS = ("tests/kernels", "tests/ipc", "tests/io", "tests/purgatory", "tests/cleaner", "tests/log")
ENVIRONMENT = {"plain": {"KBROKER_NO_KERNELS": "1"}}
"""Environment variables that a tier sets."""

TIERS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    # name: what it shows, pytest's -m expression, further arguments
    "fast": (
        "units, properties and house rules",
        "not (slow or compat or kafka or crash or fuzz or spark)",
        PARALLEL,
    ),
    "plain": (
        "code with kernels as plain Python over checked memory",
        "not (slow or compat or kafka or crash or fuzz or spark)",
        (*PARALLEL, *PLAIN_FOLDERS),
    ),
    "short": (
        "a cross-section: recorded answers of Apache Kafka, clients in Python, C and JavaScript, ten kills",
        "short and not (kafka or spark or fuzz)",
        CROWDED,
    ),
    "slow": (
        "the slower units and properties",
        "slow and not (compat or kafka or crash or fuzz or spark or long)",
        WAITING,
    ),
    "compat": (
        "real clients against a running kbroker",
        "compat and not (kafka or crash or fuzz or long)",
        FULL,
    ),
    "kafka": (
        "beside Apache Kafka, and with its Java tools",
        "kafka and not (crash or fuzz or long)",
        CROWDED,
    ),
    "crash": ("kill -9 under load, nothing acknowledged is lost", "crash and not fuzz", FULL),
    "spark": ("the judge of load tests finds every planted anomaly", "spark and not (fuzz or long)", JUDGING),
    "long": ("tests of minutes: moves to clusters and back, Connect, Spark clusters", "long", WAITING),
    "fuzz": ("random and mutated input, KBROKER_FUZZ_SECONDS of it", "fuzz", PARALLEL),
}
STRICT = ("crash", "spark", "fuzz")
AFTER_SHORT = "--after-short"
OF_NEARLY_ALL_FILES = "fast"
REPEATS = ("compat", "slow")  # tiers whose tests are the same ones in `short`
NAMES_SEEDS = ("fuzz",)  # a second run draws other seeds and proves nothing about the first
SOME_FAILED = 1
NOTHING_COLLECTED = 5
PROCESS_DIED = 99  # not of pytest: it counts what ran in a process that died as one failed test
PASSED = re.compile(r"(\d+) passed")
DIED = re.compile(r"^worker '\w+' crashed while running ")
TIER_LIMIT_S = 1800.0  # the longest takes half of it; one that hangs must not take the others' time
CI_LIMIT_S = {"long": 3000.0}
LONGEST_S = {"crash": 7200.0, "long": 7200.0, "fuzz": 40_000.0}  # tiers whose length is chosen by variables
STACKS_S = 3.0  # for the stacks of processes that are ended


@dataclass
class Outcome:
    """The result of one tier. verdict: the word in the summary; flaky: tests that failed, then
    passed; skipped: how many tests by reason."""

    verdict: str
    failed: bool
    flaky: list[str] = field(default_factory=list)
    only_flaky: bool = False  # every test that failed passed at the second try, and the tier is not STRICT
    skipped: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0


def end_with_stacks(pid: int) -> None:
    """Ends a pytest and all that it has started, after its and its workers' stacks were printed."""
    with suppress(psutil.NoSuchProcess):
        pytest = psutil.Process(pid)
        family = [pytest, *pytest.children(recursive=True)]
        print("[tests] out of time; the stacks:", flush=True)
        for each in (pytest, *pytest.children()):
            with suppress(psutil.NoSuchProcess):
                each.send_signal(hangs.STACKS_SIGNAL)
        time.sleep(STACKS_S)  # psutil would take the exit code from the code that waits for the process
        for each in [*family]:  # what they have started meanwhile would keep the pipes open
            with suppress(psutil.NoSuchProcess):
                family += each.children(recursive=True)
        for each in family:
            with suppress(psutil.NoSuchProcess):
                each.kill()


def pytest_run(*arguments: str, limit_s: float = TIER_LIMIT_S) -> tuple[int, int, Counter[str]]:
    """Runs pytest and shows its output; gives its exit code, or PROCESS_DIED, how many tests
    passed, and how many were skipped for each reason. After limit_s seconds it ends.

    The tests' files have a folder of their own, which is removed here. pytest would remove those of
    earlier runs at its end, before its summary and within its limit (tests/hangs.py)."""
    folder = tempfile.mkdtemp(prefix="kbroker-tests-")
    options = ("-q", "-o", f"cache_dir={CACHE}", f"--basetemp={folder}/t")
    command = [sys.executable, "-m", "pytest", *options, *arguments]
    passed, died = 0, False
    skipped: Counter[str] = Counter()
    with subprocess.Popen(
        command, cwd=ROOT, env=with_bytecode(), stdout=subprocess.PIPE, text=True, errors="replace"
    ) as process:
        assert process.stdout is not None
        limit = threading.Timer(limit_s, end_with_stacks, (process.pid,))
        limit.start()
        try:
            for line in process.stdout:
                sys.stdout.write(line)
                sys.stdout.flush()
                if found := PASSED.search(line):
                    passed = int(found[1])
                died = died or DIED.match(line) is not None
                skipped += skips.skipped(line)
        finally:  # its thread would keep an interrupted run from ending
            limit.cancel()
    if process.returncode == 0:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"[tests] files of tests that failed: {folder}", flush=True)
    return PROCESS_DIED if died else process.returncode, passed, skipped


def last_failed() -> list[str]:
    """Names of the tests that failed in the last run of pytest."""
    try:
        return sorted(json.loads(LAST_FAILED.read_text()))
    except (OSError, ValueError):
        return []


def known_flaky() -> set[str]:
    """Tests that tests/flaky.txt lists; the rest of each line is the cause."""
    lines = KNOWN_FLAKY.read_text().splitlines() if KNOWN_FLAKY.exists() else []
    return {line.split("  ", 1)[0].strip() for line in lines if line.strip() and not line.startswith("#")}


def chosen(name: str, after_short: bool) -> tuple[str, ...]:
    """pytest's arguments for one tier: marks, how to run, and the files that hold its tests."""
    _, expression, arguments = TIERS[name]
    if after_short and name in REPEATS:
        expression += " and not short"
    folders = tuple(f"{one}/" for one in arguments if one.startswith("tests/"))
    expressions = {tier: found for tier, (_, found, _) in TIERS.items()}
    if name == OF_NEARLY_ALL_FILES and kept(expressions) is None:
        return ("-m", expression, *arguments, *noting(expressions))
    files = files_of(expressions).get(name, [])
    if files:
        arguments = tuple(one for one in arguments if not one.startswith("tests/"))
        files = longest_first(file for file in files if not folders or file.startswith(folders))
        if name == "long":
            files = part_of(files, os.environ.get("KBROKER_LONG_PART") or "1/1")
    return ("-m", expression, *arguments, *files)


def run(name: str, in_ci: bool, after_short: bool = False) -> Outcome:
    """Runs one tier, in the environment it needs."""
    before = dict(os.environ)
    arguments = chosen(name, after_short)
    os.environ.update(ENVIRONMENT.get(name, {}))
    try:
        return run_here(name, in_ci, arguments)
    finally:
        os.environ.clear()
        os.environ.update(before)


def run_here(name: str, in_ci: bool, arguments: tuple[str, ...]) -> Outcome:
    """Runs one tier with these arguments of pytest."""
    start = time.monotonic()
    LAST_FAILED.unlink(missing_ok=True)  # it keeps names of other tiers
    limit_s = (CI_LIMIT_S if in_ci else LONGEST_S).get(name, TIER_LIMIT_S)
    code, passed, skipped = pytest_run(*arguments, limit_s=limit_s)
    outcome = judge(code, passed, name, in_ci)
    failed = last_failed()
    if code == SOME_FAILED and not failed:
        print(f"\n[tests] {name}: pytest ended without a summary; the stacks above show where", flush=True)
    elif code == SOME_FAILED and name not in NAMES_SEEDS:
        print(f"\n[tests] {name}: {len(failed)} failed; they run once more, for the report alone", flush=True)
        files = sorted({test.split("::")[0] for test in failed})
        again, *_ = pytest_run(*arguments[:2], *SECOND_TRY, *files, limit_s=limit_s)
        still = set(last_failed()) if again else set()
        outcome.flaky = [test for test in failed if test not in still]
        if failed and not still and set(outcome.flaky) <= known_flaky():
            outcome.verdict, outcome.failed = "passed, known flaky", False
        outcome.only_flaky = bool(failed) and not still and name not in STRICT
    outcome.skipped = skipped
    if in_ci and skips.refused(name, skipped):
        outcome.verdict = "FAILED (skipped)" if not outcome.failed else outcome.verdict
        outcome.failed, outcome.only_flaky = True, False
    outcome.seconds = time.monotonic() - start
    return outcome


def judge(code: int, passed: int, name: str, in_ci: bool) -> Outcome:
    """The outcome of a first run by pytest's exit code and the number of tests that passed."""
    empty = code == NOTHING_COLLECTED or (code == 0 and passed == 0)
    if empty:
        fails = in_ci or name == "fast"
        return Outcome("FAILED (no test ran)" if fails else "empty", fails)
    if code == PROCESS_DIED:
        return Outcome("FAILED (a process died)", True)
    return Outcome("passed", False) if code == 0 else Outcome(f"FAILED ({code})", True)


def last_seconds() -> dict[str, int]:
    """Seconds of each tier's last run in this tree."""
    try:
        return dict(json.loads(LAST_SECONDS.read_text()))
    except (OSError, ValueError):
        return {}


def announcement(name: str, names: Sequence[str], seconds: dict[str, int]) -> str:
    """The line before a tier: its number, and the time left where all times are known."""
    number = names.index(name)
    left = [seconds.get(each) for each in names[number:]]
    known = "" if None in left else f", {sum(filter(None, left))} s left as of the last run"
    return f"\n[tests] {number + 1} of {len(names)}{known}; {name}: {TIERS[name][0]}"


def report(results: dict[str, Outcome]) -> int:
    """Prints the summary; gives the exit code."""
    print("\n[tests] tier      result                    seconds")
    for name, outcome in results.items():
        print(f"[tests] {name:<9} {outcome.verdict:<25} {outcome.seconds:7.0f}")
    for name, outcome in results.items():
        print(*skips.summary(name, outcome.skipped), sep="\n", end="\n" * bool(outcome.skipped))
    flaky = [test for outcome in results.values() for test in outcome.flaky]
    for test in flaky:
        print(f"[tests] FLAKY {test}")
    allowed = int(os.environ.get("KBROKER_FLAKY_ALLOWED") or 0)
    print(f"[tests] {len(flaky)} flaky, {allowed} allowed")
    tolerated = len(flaky) <= allowed
    failed = [name for name, one in results.items() if one.failed and not (one.only_flaky and tolerated)]
    print(f"[tests] {'failed: ' + ' '.join(failed) if failed else 'all tiers passed'}")
    return 1 if failed else 0


def main(words: Sequence[str]) -> int:
    after_short = AFTER_SHORT in words
    names = [word for word in words if word != AFTER_SHORT]
    unknown = [name for name in names if name not in TIERS]
    if unknown or not names:
        print(f"tiers: {' '.join(TIERS)}; unknown: {' '.join(unknown) or 'none given'}")
        return 2
    in_ci = os.environ.get("CI", "").lower() in ("1", "true")
    results: dict[str, Outcome] = {}
    for name in names:
        print(announcement(name, names, seconds := last_seconds()), flush=True)
        results[name] = run(name, in_ci, after_short)
        LAST_SECONDS.parent.mkdir(parents=True, exist_ok=True)
        LAST_SECONDS.write_text(json.dumps(seconds | {name: round(results[name].seconds)}))
    return report(results)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

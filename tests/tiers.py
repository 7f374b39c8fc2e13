"""Runs the tests tier by tier: `python -m tests.tiers fast slow ...`; says what it does and how long it took.

Every test belongs to exactly one tier, so all tiers together are the whole suite. A tier that fails does not
keep the later ones from running; the exit code is 1 when any failed.
"""

import subprocess
import sys
import time

PARALLEL = ("-n", "2", "--dist", "loadfile")
# These wait for other programs half of their time. Their slow modules come early in the alphabet: in that order the
# end is not one process with a long module, as it is when modules with most tests come first.
WAITING = (*PARALLEL, "--no-loadscope-reorder")

TIERS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    # name: what it shows, pytest's -m expression, further arguments
    "fast": (
        "units, properties and house rules",
        "not (slow or compat or kafka or crash or fuzz or spark)",
        PARALLEL,
    ),
    "slow": (
        "the slower ones of the same",
        "slow and not (compat or kafka or crash or fuzz or spark)",
        PARALLEL,
    ),
    "compat": ("real clients against a running kbroker", "compat and not (kafka or crash or fuzz)", WAITING),
    "kafka": ("beside Apache Kafka, and with its Java tools", "kafka and not (crash or fuzz)", WAITING),
    "crash": ("kill -9 under load, nothing acknowledged is lost", "crash and not fuzz", WAITING),
    "spark": ("the judge of load tests finds every planted anomaly", "spark and not fuzz", ()),
    "fuzz": ("random and mutated input, KBROKER_FUZZ_SECONDS of it", "fuzz", ()),
}
SOME_FAILED = 1
NOTHING_COLLECTED = 5


def run(name: str) -> tuple[str, float]:
    """Runs one tier; gives its verdict and seconds."""
    shows, expression, arguments = TIERS[name]
    print(f"\n[tests] {name}: {shows}", flush=True)
    start = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-q", "-m", expression, *arguments]
    code = subprocess.run(command, check=False).returncode
    verdict = {0: "passed", NOTHING_COLLECTED: "empty"}.get(code, f"FAILED ({code})")
    if code == SOME_FAILED and name != "fuzz":  # other seeds would only hide what was found
        # a crowded machine can break a test that starts real programs; a broken broker breaks it again
        print(f"\n[tests] {name}: those that failed, once more and alone", flush=True)
        again = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-m",
            expression,
            "--last-failed",
            "--last-failed-no-failures=none",
        ]
        if subprocess.run(again, check=False).returncode == 0:
            verdict = "passed at the second try"
    if verdict == "empty" and name == "fast":
        verdict = "FAILED (nothing collected)"
    return verdict, time.monotonic() - start


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in TIERS]
    if unknown or not names:
        print(f"tiers: {' '.join(TIERS)}; unknown: {' '.join(unknown) or 'none given'}")
        return 2
    results = {name: run(name) for name in names}
    print("\n[tests] tier      result                    seconds")
    for name, (verdict, seconds) in results.items():
        print(f"[tests] {name:<9} {verdict:<25} {seconds:7.0f}")
    failed = [name for name, (verdict, _) in results.items() if verdict.startswith("FAILED")]
    print(f"[tests] {'failed: ' + ' '.join(failed) if failed else 'all tiers passed'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

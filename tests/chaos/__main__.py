"""Tests in a loop beside chaos: `python -m tests.chaos tests/crash/test_share_retries.py`.

Each run's output is kept when it fails; the seed of a run repeats its draws, as far as a machine's
timing allows. Ends with 1 when a run failed.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tests.chaos.pauses import Pauses

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".cache" / "chaos"
SOURCE = Path(__file__).parent / "slow_disk.c"


def main() -> int:
    """Run by the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("tests", nargs="+", help="files, and options for pytest after --")
    parser.add_argument("--seconds", type=float, default=600, help="begin no further run after this time")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 1 << 30))
    parser.add_argument(
        "--longest", type=float, default=1.0, help="seconds that a process is stopped at most"
    )
    parser.add_argument(
        "--slow-disk", type=int, default=0, metavar="MS", help="slow fsync and rename instead"
    )
    options = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    environment = os.environ | (slow_disk(options.slow_disk) if options.slow_disk else {})
    failed = 0
    end = time.monotonic() + options.seconds
    seed = options.seed
    while time.monotonic() < end:
        failed += not one_run(seed, options, environment)
        seed += 1
    print(f"[chaos] {seed - options.seed} runs, {failed} failed", flush=True)
    return 1 if failed else 0


def one_run(seed: int, options: argparse.Namespace, environment: dict[str, str]) -> bool:
    """Whether the tests passed."""
    log = FOLDER / f"{seed}.log"
    pauses = Pauses(random.Random(seed), options.longest)
    begun = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options.tests]
    with (
        open(log, "wb") as out,
        subprocess.Popen(command, cwd=ROOT, env=environment, stdout=out, stderr=out) as run,
    ):
        if not options.slow_disk:
            pauses.until_the_end_of(run, float("inf"))
        code = run.wait()
    stops = ", ".join(f"{name} {count}" for name, count in pauses.stopped.most_common(6))
    kept = "" if code == 0 else f", output in {log}"
    took = time.monotonic() - begun
    print(
        f"[chaos] seed {seed}: {'passed' if code == 0 else 'FAILED'} in {took:.0f} s; {stops}{kept}",
        flush=True,
    )
    if code == 0:
        log.unlink()
    return code == 0


def slow_disk(milliseconds: int) -> dict[str, str]:
    """Environment of processes whose syncs and renames take so much longer on average."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise SystemExit("--slow-disk needs a C compiler")
    library = FOLDER / "slow_disk.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, SOURCE, "-ldl"], check=True)
    return {"LD_PRELOAD": str(library), "SLOW_DISK_MS": str(milliseconds)}


if __name__ == "__main__":
    sys.exit(main())

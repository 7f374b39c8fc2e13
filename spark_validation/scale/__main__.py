"""`python -m spark_validation.scale 10000000 30000000 --folder DIR`: makes runs, judges them,
prints the cost.

A run of N records is N sends, N log records (segment files) and 2 N reads. It takes about 160 bytes
of disk a record, and scratch files of Spark; each run is removed after its judgement.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from spark_validation.options import CLEAN
from spark_validation.scale.make import make

COST = re.compile(r"^\d+ s, (\d+) s user \+ (\d+) s system CPU, at most ([\d.]+) GiB resident", re.MULTILINE)


def judged(folder: Path) -> tuple[float, float, float]:
    """(wall seconds, CPU seconds, GiB) of a judgement in a process of its own. Raises RuntimeError
    unless clean."""
    command = [sys.executable, "-P", "-m", "spark_validation", "judge", "--history", str(folder / "run")]
    command += ["--segments", str(folder / "data"), "--report", str(folder / "verdict.html")]
    began = time.monotonic()
    environment = os.environ | {"SPARK_LOCAL_DIRS": str(folder / "scratch")}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, env=environment)
    taken = time.monotonic() - began
    found = COST.search(done.stdout)
    if done.returncode != CLEAN or found is None:
        raise RuntimeError(f"the judge ended with {done.returncode}:\n{done.stdout}")
    return taken, float(found[1]) + float(found[2]), float(found[3])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("records", type=int, nargs="+")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--keep", action="store_true", help="do not remove the runs")
    chosen = parser.parse_args()
    print("| records | wall s | CPU s | CPU µs a record | GiB resident |\n|---|---|---|---|---|", flush=True)
    for records in chosen.records:
        folder = chosen.folder / f"{records}"
        make(folder, records)
        wall, cpu, peak = judged(folder)
        print(
            f"| {records:,} | {wall:.0f} | {cpu:.0f} | {cpu / records * 1e6:.1f} | {peak:.1f} |", flush=True
        )
        if not chosen.keep:
            shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())

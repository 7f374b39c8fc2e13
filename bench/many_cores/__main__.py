"""`python -m bench.many_cores`: measures kbroker with one and two processes of each kind, fits the
model, holds it against four and eight, and writes docs/many-cores.md."""

import argparse
import signal
import sys
from dataclasses import replace
from pathlib import Path

from bench.congestion import congestion_control
from bench.generator import CACHE, LoadFailed
from bench.machine import describe
from bench.many_cores.model import Counts
from bench.many_cores.observing import WORKS, observe_all
from bench.many_cores.page import BEGIN, END, figure, section
from bench.many_cores.samples import Samples
from bench.run import make_generator, work_folder
from bench.size import FULL
from bench.targets import TargetFailed
from docs.wrap import wrapped

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "many-cores.md"
SAMPLES = ROOT / "docs" / "benchmarks" / "many-cores.json"
FITTED = (Counts(1, 1), Counts(2, 1), Counts(1, 2), Counts(2, 2))
HELD_OUT = (Counts(4, 4), Counts(8, 8))


def measure(rounds: int, seconds: float, folder: Path) -> Samples:
    """All works with all counts, so often; saved after each broker."""
    size = replace(FULL, seconds=seconds, warm_seconds=seconds / 3, cached_bytes=256 << 20)
    samples = Samples(describe(folder), {})
    generator = make_generator()
    with congestion_control("") as congestion, work_folder(folder) as place:
        samples.machine["congestion control of all connections"] = congestion
        for number in range(rounds):
            for counts in (*FITTED, *HELD_OUT):
                home = place / f"{number}-{counts.network}-{counts.io}"
                for work, observed in observe_all(counts, WORKS, home, generator, size):
                    samples.observed.setdefault(work.name, []).append(observed)
                    roles = " ".join(f"{role} {cost:.3g}" for role, cost in observed.cost_us.items() if cost)
                    print(
                        f"  {number + 1}  {counts!s:<6} {work.name:<15} {figure(observed.rate):>9}/s  µs: {roles}",
                        flush=True,
                    )
                samples.save(SAMPLES)
    return samples


def write_page(samples: Samples) -> None:
    """Replaces what stands between the marks."""
    text = PAGE.read_text()
    before, after = text.partition(BEGIN)[0], text.partition(END)[2]
    PAGE.write_text(before + wrapped(section(samples)).rstrip("\n") + after)


def main() -> int:
    made = argparse.ArgumentParser(prog="python -m bench.many_cores", description=__doc__)
    made.add_argument("--rounds", type=int, default=3)
    made.add_argument("--seconds", type=float, default=2.0, help="of each load")
    made.add_argument(
        "--folder", type=Path, default=CACHE, help="where the brokers keep their data meanwhile"
    )
    made.add_argument("--page-only", action="store_true", help="of the samples that are kept")
    options = made.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # unwinds, so that no broker is left behind
    try:
        samples = (
            Samples.load(SAMPLES)
            if options.page_only
            else measure(options.rounds, options.seconds, options.folder.resolve())
        )
    except (LoadFailed, TargetFailed) as failure:
        print(f"bench: {failure}", file=sys.stderr)
        return 1
    write_page(samples)
    print(f"wrote {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

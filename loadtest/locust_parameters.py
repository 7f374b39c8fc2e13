"""Parameters that the conductor passes to Locust: an environment variable with the run's folder,
which contains locust.json.
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from loadtest.clock import Clock
from loadtest.run import write_json

VARIABLE = "LOADTEST_RUN"


@dataclass(slots=True)
class LocustParameters:
    """Parameters beside run.json: start of the schedule, and the clock of the run."""

    begin_ns: int
    clock_offset_ns: int
    boot: str

    def clock(self) -> Clock:
        return Clock(self.clock_offset_ns, self.boot)


def save(folder: Path, parameters: LocustParameters) -> None:
    write_json(folder / "locust.json", asdict(parameters))


def load(folder: Path) -> LocustParameters:
    return LocustParameters(**json.loads((folder / "locust.json").read_text()))


def folder() -> Path:
    """Folder of the run that this Locust process belongs to. Raises SystemExit if Locust was
    started by hand."""
    name = os.environ.get(VARIABLE)
    if not name:
        raise SystemExit("start load tests with `kbroker loadtest run`; it starts Locust with a run to play")
    return Path(name)

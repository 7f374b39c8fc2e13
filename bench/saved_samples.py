"""The samples of docs/benchmarks.md, stored beside it: one run, a line for each sample, without
data of the host."""

import json
import re
from pathlib import Path

from bench.results import Results, Sample

FILE = "samples.json"
DIGITS = 5
REASON_CHARACTERS = 200
PATH = re.compile(r"(?<![\w.])(?:/[\w.+-]+){2,}/?")
"""A path of the host, in the text of a failure."""


def file_of(page: Path) -> Path:
    return page.parent / page.stem / FILE


def load(path: Path) -> Results | None:
    """The saved run; None without a file."""
    if not path.exists():
        return None
    run = json.loads(path.read_text())
    samples = [_sample(*fields) for fields in run["samples"]]
    return Results(run["machine"], run["setup"], samples, run["titles"])


def save(path: Path, run: Results) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    facts = f'"machine": {json.dumps(run.machine)},\n"setup": {json.dumps(run.setup)}'
    facts += f',\n"titles": {json.dumps(run.titles)}'
    lines = ",\n".join(json.dumps(_fields(sample), separators=(",", ":")) for sample in run.samples)
    path.write_text(f'{{{facts},\n"samples": [\n{lines}\n]}}\n')


def reason(failure: str) -> str:
    """The first line of a failure, without the host's paths; the middle of a long one is left
    out."""
    line = PATH.sub("...", failure.partition("\n")[0])
    return line if len(line) <= REASON_CHARACTERS else f"{line[:80]}...{line[-80:]}"


def _fields(sample: Sample) -> list[object]:
    figures = {key: float(f"{value:.{DIGITS}g}") for key, value in sample.figures.items()}
    failure = [reason(sample.failure)] if sample.failure else []
    return [sample.scenario, sample.target, sample.round, figures, *failure]


def _sample(scenario: str, target: str, number: int, figures: dict[str, float], failure: str = "") -> Sample:
    return Sample(number, target, scenario, figures, failure)

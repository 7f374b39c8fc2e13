"""The raw samples behind docs/benchmarks.md, kept beside it. A later run, perhaps on another machine,
replaces the samples of its own scenarios only.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from bench.results import Results, Sample, owners

FILE = "samples.json"
DIGITS = 5


def file_of(page: Path) -> Path:
    return page.parent / page.stem / FILE


def load(path: Path) -> list[Results]:
    """Runs, oldest first; none where nothing was kept yet."""
    if not path.exists():
        return []
    return [
        Results(
            run["machine"],
            run["setup"],
            [_sample(*fields) for fields in run["samples"]],
            run.get("titles", {}),
        )
        for run in json.loads(path.read_text())
    ]


def save(path: Path, runs: Iterable[Results]) -> None:
    """A line a sample, so that a later run changes the lines of its own scenarios only."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("[\n" + ",\n".join(_text(run) for run in runs) + "\n]\n")


def newest(runs: Sequence[Results]) -> list[Results]:
    """Each run with the samples that no later one takes the place of; runs without any are gone."""
    owner = owners(runs)
    left = (
        replace(run, samples=[sample for sample in run.samples if owner[sample.scenario] == number])
        for number, run in enumerate(runs)
    )
    return [run for run in left if run.samples]


def _text(run: Results) -> str:
    facts = f'"machine": {json.dumps(run.machine)},\n"setup": {json.dumps(run.setup)}'
    facts += f',\n"titles": {json.dumps(run.titles)}'
    lines = ",\n".join(json.dumps(_fields(sample), separators=(",", ":")) for sample in run.samples)
    return f'{{{facts},\n"samples": [\n{lines}\n]}}'


def _fields(sample: Sample) -> list[object]:
    figures = {key: float(f"{value:.{DIGITS}g}") for key, value in sample.figures.items()}
    return [
        sample.scenario,
        sample.target,
        sample.round,
        figures,
        *([sample.failure] if sample.failure else []),
    ]


def _sample(scenario: str, target: str, number: int, figures: dict[str, float], failure: str = "") -> Sample:
    return Sample(number, target, scenario, figures, failure)

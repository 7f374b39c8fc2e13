"""Figures that other pages and the knobs quote of docs/benchmarks.md are the ones that it has."""

import re
from pathlib import Path

import pytest

from bench import saved_samples
from bench.report import PAGE
from bench.results import Row, compare
from bench.scenarios import SCENARIOS
from bench.tables import figure

ROOT = Path(__file__).parents[2]
FIELD = re.compile(r"\{(\w+)\.(\w+)\.(theirs|ours|share|their_share)\}")

MAPPINGS = (
    "{many_partitions.maps.ours} mappings with 10,000 partitions, "
    "where Apache Kafka has {many_partitions.maps.theirs}"
)


def _line(title: str, *fields: str) -> str:
    """A line of a table: the fields of both brokers, then what follows each."""
    cells = ["; ".join(field.replace("BROKER", side) for field in fields) for side in ("theirs", "ours")]
    return f"| {title} | {' | '.join(cells)} |"


def _asked(title: str, scenario: str) -> str:
    return _line(title, f"{{{scenario}.rate.BROKER}}", f"{{{scenario}.cpu_us.BROKER}} µs")


QUOTES = (
    ("tuning/knobs/memory.py", MAPPINGS),
    ("docs/knobs.md", MAPPINGS),
    ("docs/tuning.md", MAPPINGS),
    (
        "docs/lab/bare-loops.md",
        "fetches of 1 MiB reach {fetch_1m.mb_per_s.share} of it, Apache Kafka {fetch_1m.mb_per_s.their_share}.",
    ),
    ("docs/lab/recovery.md", _line("small logs answer after", "{produce_recovery.served_s.BROKER} s")),
    ("docs/lab/recovery.md", _line("all logs answer after", "{produce_recovery.all_s.BROKER} s")),
    (
        "docs/lab/recovery.md",
        _line("p99 of acks meanwhile / on the quiet broker", "{produce_recovery.slower.BROKER}"),
    ),
    ("docs/groups.md", _asked("heartbeats/s; broker CPU per heartbeat", "groups_heartbeat")),
    ("docs/groups.md", _asked("commits/s; broker CPU per commit", "groups_commit")),
    (
        "docs/groups.md",
        _line(
            "rebalance of a group of 500, all members join again", "{groups_rebalance.rebalance_ms.BROKER} ms"
        ),
    ),
    ("docs/groups.md", _asked("Metadata of a topic, requests/s; broker CPU per request", "ask_metadata")),
    ("docs/groups.md", _asked("FindCoordinator of a group", "ask_coordinator")),
    ("docs/groups.md", _asked("ListOffsets, the latest of a partition", "ask_latest")),
    ("docs/groups.md", _asked("OffsetFetch of a partition", "ask_committed")),
)


@pytest.fixture(scope="module")
def rows() -> dict[tuple[str, str], Row]:
    run = saved_samples.load(saved_samples.file_of(PAGE))
    assert run is not None
    return {(row.scenario, row.measure.key): row for row in compare(run.samples, SCENARIOS)}


@pytest.mark.parametrize(("path", "quote"), QUOTES, ids=[f"{path}: {quote[:40]}" for path, quote in QUOTES])
def test_a_quoted_figure_is_the_one_of_the_benchmarks(
    rows: dict[tuple[str, str], Row], path: str, quote: str
) -> None:
    def value(field: re.Match[str]) -> str:
        row = rows[field[1], field[2]]
        shares = {"share": row.subject_share, "their_share": row.baseline_share}
        if field[3] in shares:
            return f"{shares[field[3]]:.2f}"
        return figure(row.subject if field[3] == "ours" else row.baseline)

    text = " ".join((ROOT / path).read_text().split())
    assert FIELD.sub(value, quote) in text

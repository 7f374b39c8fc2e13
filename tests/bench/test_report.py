"""The table and the page say what the samples say."""

import re
from pathlib import Path

import pytest

from bench.plots import draw
from bench.report import BEGIN, END, missing, summary, write_page
from bench.results import Results, Sample, compare
from bench.scenarios import SCENARIOS
from bench.tables import figure, markdown_table, text_table

SAMPLES = [
    Sample(1, "kafka", "raw_50x1", {"rate": 44_000.0, "cpu_us": 27.0, "ack_p99_ms": 3.4, "limit": 200_000.0}),
    Sample(
        1, "kbroker", "raw_50x1", {"rate": 100_000.0, "cpu_us": 10.0, "ack_p99_ms": 3.0, "limit": 180_000.0}
    ),
]
ROWS = compare(SAMPLES, SCENARIOS)
RESULTS = Results({"processor": "a test"}, {"rounds": "1"}, SAMPLES)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0.0, "0"),
        (0.012345, "0.0123"),
        (3.14159, "3.14"),
        (99.96, "100"),
        (1234.5, "1,230"),
        (123456.0, "123,000"),
        (2_345_678.0, "2,350,000"),
    ],
)
def test_figures_have_three_significant_digits(value: float | None, text: str) -> None:
    assert figure(value) == text


def test_the_text_table_shows_ratio_goal_and_verdict() -> None:
    lines = {line.split(",")[0].strip(): line for line in text_table(ROWS).splitlines()}
    assert lines["rate"].split()[-8:] == ["44,000", "100,000", "2.27", "≥", "1.8", "yes", "190,000", "0.56"]
    assert lines["broker CPU per request"].split()[-6:] == ["27", "10", "0.37", "≤", "0.45", "yes"]
    assert lines["ack p99"].split()[-1] == "no"


def test_the_summary_counts_and_names_what_is_not_met() -> None:
    assert summary(ROWS) == "2 of 4 goals met; not met: raw_50x1 ack p99, raw_50x1 share of the limit"
    assert "one broker only" in summary(compare(SAMPLES[:1], SCENARIOS))


def test_every_line_of_the_markdown_table_has_the_same_cells() -> None:
    assert {line.count("|") for line in markdown_table(ROWS).splitlines()} == {10}


def test_the_page_keeps_what_was_written_by_hand(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    page.write_text(
        f"# Title\n\nbefore\n\n{BEGIN}\nold figures\n{END}\n\nThe p99 misses its goal because ...\n"
    )
    write_page(RESULTS, page)
    written = page.read_text()
    assert written.startswith("# Title\n\nbefore\n")
    assert written.endswith("\n\nThe p99 misses its goal because ...\n")
    assert "old figures" not in written
    assert "processor: a test" in written
    write_page(RESULTS, page)
    assert page.read_text() == written


def test_the_page_is_begun_when_there_is_none(tmp_path: Path) -> None:
    page = tmp_path / "docs" / "benchmarks.md"
    write_page(RESULTS, page)
    assert page.read_text().count(BEGIN) == 1
    assert "2 of 4 goals met" in page.read_text()


def test_the_page_is_made_again_from_the_samples_beside_it(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    write_page(RESULTS, page)
    before = page.read_text()
    page.write_text("")
    write_page(None, page)
    assert page.read_text().partition(BEGIN)[2] == before.partition(BEGIN)[2]


def test_the_page_shows_only_one_run(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    write_page(RESULTS, page)
    elsewhere = [
        Sample(1, name, "fetch_1m", {"mb_per_s": rate}) for name, rate in (("kafka", 1e3), ("kbroker", 2e3))
    ]
    write_page(Results({"processor": "another"}, {"rounds": "1"}, elsewhere), page)
    text = page.read_text()
    assert "- processor: another\n" in text
    assert "44,000" not in text
    assert "2,000" in text


def test_the_page_says_what_a_bare_loop_does_and_how_near_both_come(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    write_page(RESULTS, page)
    (line,) = [line for line in page.read_text().splitlines() if "answer each |" in line]
    assert line.endswith("| receive the same frames, answer each | 0.22 | 0.56 | ≥ 0.6 | no |")


def test_the_page_says_which_rows_are_missing(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    samples = [
        *SAMPLES,
        Sample(2, "kbroker", "raw_50x1", {"rate": 100_000.0}),
        Sample(1, "kbroker", "fetch_4k", {"rate": 5.0}),
        Sample(1, "kbroker", "fetch_1m", failure="no answer"),
    ]
    run = Results({}, {}, samples, {"fetch_4k": "small reads"})
    write_page(run, page)
    nothing, one_broker, one_round = missing(run).splitlines()
    assert nothing.startswith("- Not measured in this run: cold start and memory; ")
    assert "raw fetch, 1 MiB" in nothing
    assert "50 x 1 in flight" not in nothing
    assert one_broker == "- One broker only: small reads."
    assert one_round.endswith("how steady they are: one record per request, raw sockets, 50 x 1 in flight.")
    assert "## Missing figures" in page.read_text()


def test_a_complete_run_misses_nothing() -> None:
    samples = [
        Sample(number, name, scenario.name, {measure.key: 1.0 for measure in scenario.measures})
        for number in (1, 2)
        for name in ("kafka", "kbroker")
        for scenario in SCENARIOS
    ]
    assert missing(Results({}, {}, samples)) == ""


def test_a_limit_is_one_of_a_measure() -> None:
    for scenario in SCENARIOS:
        if scenario.limit:
            assert scenario.limit.key in {measure.key for measure in scenario.measures}


def test_plots_are_drawn_and_linked_where_matplotlib_is(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    page = tmp_path / "benchmarks.md"
    files = write_page(RESULTS, page)
    assert [file.name for file in files] == [
        "benchmarks.md",
        "samples.json",
        "ratios.svg",
        "latencies.svg",
        "bars.svg",
    ]
    assert "(benchmarks/ratios.svg)" in page.read_text()


def test_both_plots_have_ticks_at_1_2_and_5(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    ratios, latencies = draw(ROWS, tmp_path)
    assert {"0.5x", "1x", "2x", "5x"} <= texts(ratios)
    assert {"2 ms", "5 ms"} <= texts(latencies)
    assert not [text for text in texts(ratios) | texts(latencies) if "mathdefault" in text]


def texts(file: Path) -> set[str]:
    """What a plot says; matplotlib draws text as paths and leaves it in comments."""
    return {found.strip() for found in re.findall("<!--(.*?)-->", file.read_text(), re.DOTALL)}


def test_scenario_names_are_unique_and_none_is_a_prefix_that_hides_another() -> None:
    names = [scenario.name for scenario in SCENARIOS]
    assert len(set(names)) == len(names)
    for scenario in SCENARIOS:
        keys = [measure.key for measure in scenario.measures]
        assert len(set(keys)) == len(keys)

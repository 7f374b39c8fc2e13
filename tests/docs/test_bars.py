"""The bars of the README show the figures of the table, to scale."""

from bench.scenarios import SCENARIOS
from bench.size import FULL
from docs.bars import LONGEST, PAGE, SHOWN, Bar, measured, picture

TABLE = "\n".join(
    f"| {work} | {measure} | {number},000 | {number + 10}.5 | 2 (1–3) | | |"
    for number, (work, measure, _, _) in enumerate(SHOWN, 1)
)


def test_six_bars_have_the_values_of_the_table() -> None:
    bars = measured(TABLE)
    assert [(bar.theirs, bar.ours) for bar in bars] == [(f"{n},000", f"{n + 10}.5") for n in range(1, 7)]


def test_a_work_is_named_once_for_its_measures() -> None:
    work, _measure, title, better = SHOWN[0]
    head, rest = TABLE.split("\n", 1)
    split = f"| {work} | something else | 1 | 2 | 2 | | |\n{head.replace(work, '')}\n{rest}"
    assert measured(split)[0] == Bar(title, better, "1,000", "11.5")


def test_a_row_that_a_run_lacks_has_no_bar() -> None:
    short = TABLE.split("\n", 1)[1]
    assert [bar.title for bar in measured(short)] == [title for _, _, title, _ in SHOWN[1:]]
    assert picture(short).count('class="theirs"') == len(SHOWN)  # one of them is the legend's
    assert "svg" in picture("")


def test_every_bar_is_a_row_that_the_benchmarks_write() -> None:
    rows = {
        (scenario.title_at(FULL), measure.label + (f", {measure.unit}" if measure.unit else ""))
        for scenario in SCENARIOS
        for measure in scenario.measures
    }
    assert {(work, measure) for work, measure, _, _ in SHOWN} <= rows


def test_lengths_are_to_scale() -> None:
    assert Bar("t", "more", "250", "1,000").lengths() == (LONGEST // 4, LONGEST)


def test_the_picture_shows_the_page() -> None:
    svg = picture()
    assert all(bar.ours in svg and bar.theirs in svg for bar in measured(PAGE.read_text()))

"""What is kept of a run is what the page needs, and no more than that."""

from pathlib import Path

from bench import kept
from bench.results import Results, Sample, compare
from bench.scenarios import SCENARIOS


def run(name: str, *scenarios: str, figure: float = 1.0) -> Results:
    samples = [
        Sample(number, target, scenario, {measure.key: figure for measure in each.measures})
        for number in (1, 2, 3)
        for target in ("kafka", "kbroker")
        for each in SCENARIOS
        for scenario in (each.name,)
        if scenario in scenarios
    ]
    return Results({"processor": name}, {"rounds": "3"}, samples)


def test_samples_come_back_but_for_digits_that_nobody_reads(tmp_path: Path) -> None:
    broken = Sample(3, "kafka", "raw_50x1", failure="offset 3 where 2 was due")
    results = Results(
        {"processor": "x"}, {"rounds": "3"}, [Sample(1, "kafka", "raw_50x1", {"rate": 12345.678}), broken]
    )
    kept.save(tmp_path / "page" / "samples.json", [results])
    (found,) = kept.load(tmp_path / "page" / "samples.json")
    assert (found.machine, found.setup) == (results.machine, results.setup)
    assert found.samples == [Sample(1, "kafka", "raw_50x1", {"rate": 12346.0}), broken]


def test_nothing_is_kept_at_first(tmp_path: Path) -> None:
    assert kept.load(tmp_path / "samples.json") == []


def test_of_a_scenario_the_last_run_is_kept() -> None:
    runs = [run("old", "raw_50x1", "fetch_1m"), run("middle", "raw_50x1"), run("new", "raw_50x1", figure=2.0)]
    left = kept.newest(runs)
    assert [each.machine["processor"] for each in left] == ["old", "new"]
    assert [{sample.scenario for sample in each.samples} for each in left] == [{"fetch_1m"}, {"raw_50x1"}]
    assert Results.join(left).samples == Results.join(runs).samples
    assert kept.newest(left) == left


def test_a_full_run_takes_little_room(tmp_path: Path) -> None:
    full = run("x" * 30, *(scenario.name for scenario in SCENARIOS), figure=123456.789)
    kept.save(tmp_path / "samples.json", [full])
    assert (tmp_path / "samples.json").stat().st_size < 200_000
    (found,) = kept.load(tmp_path / "samples.json")
    assert len(compare(found.samples, SCENARIOS)) == len(compare(full.samples, SCENARIOS))


def test_a_later_run_changes_the_lines_of_its_own_scenarios_only(tmp_path: Path) -> None:
    path = tmp_path / "samples.json"
    kept.save(path, [run("old", "raw_50x1", "fetch_1m")])
    before = [line for line in path.read_text().splitlines() if "fetch_1m" in line]
    kept.save(path, kept.newest([*kept.load(path), run("new", "raw_50x1", figure=2.0)]))
    after = [line for line in path.read_text().splitlines() if "fetch_1m" in line]
    assert [line.rstrip(",") for line in before] == [line.rstrip(",") for line in after]

"""What is kept of a run is what the page needs, and no more than that."""

from pathlib import Path

from bench import saved_samples
from bench.results import Results, Sample, compare
from bench.scenarios import SCENARIOS


def full_run(figure: float = 1.0) -> Results:
    samples = [
        Sample(number, target, each.name, {measure.key: figure for measure in each.measures})
        for number in (1, 2, 3)
        for target in ("kafka", "kbroker")
        for each in SCENARIOS
    ]
    return Results({"processor": "x" * 30}, {"rounds": "3"}, samples)


def test_samples_come_back_except_for_insignificant_digits(tmp_path: Path) -> None:
    broken = Sample(3, "kafka", "raw_50x1", failure="offset 3 where 2 was due")
    titles = {"raw_50x1": "one record per request"}
    results = Results(
        {"processor": "x"},
        {"rounds": "3"},
        [Sample(1, "kafka", "raw_50x1", {"rate": 12345.678}), broken],
        titles,
    )
    saved_samples.save(tmp_path / "page" / "samples.json", results)
    found = saved_samples.load(tmp_path / "page" / "samples.json")
    assert found is not None
    assert (found.machine, found.setup, found.titles) == (results.machine, results.setup, titles)
    assert found.samples == [Sample(1, "kafka", "raw_50x1", {"rate": 12346.0}), broken]


def test_nothing_is_kept_at_first(tmp_path: Path) -> None:
    assert saved_samples.load(tmp_path / "samples.json") is None


def test_a_full_run_takes_little_room(tmp_path: Path) -> None:
    full = full_run(123456.789)
    saved_samples.save(tmp_path / "samples.json", full)
    assert (tmp_path / "samples.json").stat().st_size < 200_000
    found = saved_samples.load(tmp_path / "samples.json")
    assert found is not None
    assert len(compare(found.samples, SCENARIOS)) == len(compare(full.samples, SCENARIOS))


def test_a_sample_has_a_line_of_its_own(tmp_path: Path) -> None:
    run = full_run()
    saved_samples.save(tmp_path / "samples.json", run)
    lines = (tmp_path / "samples.json").read_text().splitlines()
    assert len([line for line in lines if line.startswith('["')]) == len(run.samples)


def test_a_failure_is_kept_without_paths_and_logs(tmp_path: Path) -> None:
    failure = (
        "kbroker: cannot open /srv/someone/data-1/t-0/0.log, 30/s and/or less\nTraceback ...\n/secret/place"
    )
    broken = Sample(1, "kbroker", "raw_50x1", failure=failure)
    saved_samples.save(tmp_path / "samples.json", Results({}, {}, [broken]))
    text = (tmp_path / "samples.json").read_text()
    assert "cannot open ..., 30/s and/or less" in text
    assert "someone" not in text
    assert "secret" not in text


def test_the_middle_of_a_long_failure_is_left_out() -> None:
    assert saved_samples.reason("repeat: " + 2000 * "00" + " is another answer") == (
        f"repeat: {72 * '0'}...{62 * '0'} is another answer"
    )

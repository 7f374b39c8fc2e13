"""A run is saved after each turn, and one that was cut continues where it stopped."""

from dataclasses import replace
from pathlib import Path

import pytest

from bench.results import Results, Sample
from bench.scenarios import SCENARIOS
from bench.session import NothingToResume, Plan, begin, latest
from bench.size import FULL, QUICK
from bench.targets import KafkaOptions


def plan(folder: Path) -> Plan:
    return Plan(SCENARIOS, ["kafka", "kbroker"], FULL, 3, 60.0, folder, KafkaOptions(), "")


def save(folder: Path, name: str, run: Results) -> None:
    run.save(folder / f"{name}.json")


def test_the_last_run_is_continued(tmp_path: Path) -> None:
    for name, rate in (("20260101-000000", 1.0), ("20260102-000000", 2.0)):
        run = begin(plan(tmp_path))
        run.samples.append(Sample(1, "kafka", "raw_50x1", {"rate": rate}))
        run.threads[:] = [2, 4]
        save(tmp_path, name, run)
    path, found = latest(plan(tmp_path), tmp_path)
    assert path.name == "20260102-000000.json"
    assert found.samples == [Sample(1, "kafka", "raw_50x1", {"rate": 2.0})]
    assert found.threads == [2, 4]


def test_a_run_of_other_turns_is_not_mixed_with_this_one(tmp_path: Path) -> None:
    save(tmp_path, "20260101-000000", begin(plan(tmp_path)))
    save(tmp_path, "20260102-000000", begin(replace(plan(tmp_path), size=QUICK)))
    with pytest.raises(NothingToResume):
        latest(plan(tmp_path), tmp_path)


def test_without_a_run_there_is_nothing_to_continue(tmp_path: Path) -> None:
    with pytest.raises(NothingToResume):
        latest(plan(tmp_path), tmp_path)


def test_a_write_that_is_cut_leaves_the_last_state(tmp_path: Path) -> None:
    run = begin(plan(tmp_path))
    run.save(tmp_path / "run.json")
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]
    assert Results.load(tmp_path / "run.json") == run

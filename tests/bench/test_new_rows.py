"""Scenarios of topics and transactions get right answers from a broker, and give all their
figures."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bench.run import make_generator, running
from bench.scenario import Scenario
from bench.scenarios import SCENARIOS, create_topic, transactions
from bench.size import QUICK
from bench.targets import KbrokerTarget
from bench.turn import Turn
from tests.peer.kbroker_node import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("cc") is None, reason="the load generator is C: needs cc"),
]
SHORT = replace(QUICK, warm_seconds=0.1, seconds=0.2, limit_seconds=0.1)
NAMES = (
    "create_1000",
    "ask_new_coordinator",
    "ask_add_partitions",
    "ask_add_each_partition",
    "ask_behind_aborted",
)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KbrokerTarget]:
    folder: Path = tmp_path_factory.mktemp("rows") / "kbroker"
    folder.mkdir()
    made = KbrokerTarget(folder, make_generator())
    made.environment["PYTHONPATH"] = str(ROOT)
    with running(made):
        yield made


@pytest.mark.parametrize("name", NAMES)
def test_a_row_has_all_its_figures(target: KbrokerTarget, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(create_topic, "PARTITIONS", 20)
    monkeypatch.setattr(transactions, "ABORTED", 60)
    scenario: Scenario = next(each for each in SCENARIOS if each.name == name)
    turn = Turn(target, target.generator, SHORT, NAMES.index(name), set())
    figures = scenario.run(turn)
    if scenario.limit:
        figures["limit"] = scenario.limit.run(turn)
        assert figures["limit"] > 0
    turn.clean_up()
    assert all(figures[measure.key] > 0 for measure in scenario.measures if measure.key != "client_cpu"), (
        figures
    )

"""docs/models.md lists every model, and what it says of their bugs and runs is what tests do."""

import dataclasses
import importlib
from pathlib import Path
from types import ModuleType

import pytest

from tests.models.page import documented_runs, documented_states, rows

FOLDER = Path(__file__).parent
NAMES = {"slot_group": "slot"}
"""Of models in the table of bugs, where it is not that of the module."""


def _modules() -> dict[str, ModuleType]:
    return {
        path.stem: importlib.import_module(f"tests.models.{path.stem}") for path in FOLDER.glob("[a-z]*.py")
    }


def _model_of(module: ModuleType) -> type | None:
    made_here = (each for each in vars(module).values() if getattr(each, "__module__", "") == module.__name__)
    found = [each for each in made_here if dataclasses.is_dataclass(each) and hasattr(each, "promises")]
    return found[0] if found else None  # type: ignore[return-value]


MODULES = _modules()
MODELS = {
    name: model
    for name, module in MODULES.items()
    if not name.startswith("test_") and (model := _model_of(module)) is not None
}


def test_the_page_has_a_row_for_each_model_and_its_bugs() -> None:
    listed = {cells[0] for cells in rows()}
    assert len(MODELS) > 9
    for name in MODELS:
        assert documented_states(name) > 0
        assert NAMES.get(name, name).replace("_", " ") in listed, f"no bug of {name} is on the page"


@pytest.mark.parametrize("name", MODELS)
def test_each_bug_of_a_model_is_put_back_by_its_test(name: str) -> None:
    flags = [field.name for field in dataclasses.fields(MODELS[name]) if field.default is False]
    test = (FOLDER / f"test_{name}.py").read_text()
    assert flags
    assert f'documented_states("{name}")' in test
    missing = [flag for flag in flags if f'"{flag}"' not in test and f"{flag}=True" not in test]
    assert not missing


def test_as_many_runs_are_recorded_as_the_page_says() -> None:
    tied = {
        name: module.RUNS
        for name, module in MODULES.items()
        if hasattr(module, "RUNS") and name.startswith("test_")
    }
    assert len(tied) == 4
    assert {name: len(runs) for name, runs in tied.items()} == {name: documented_runs(name) for name in tied}
    ways = MODULES["test_high_watermark"]
    assert f"takes {12 * ways.WALKS} random" in (FOLDER.parents[1] / "docs" / "models.md").read_text()

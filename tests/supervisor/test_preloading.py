"""The parent imports, module by module, what the first process of a role has imported."""

import sys
from pathlib import Path

import pytest

from kbroker.supervisor.preloading import Preloading
from tests.forked_child import ForkedChild

MODULES = ("preloaded_leaf", "preloaded_middle", "preloaded_top")
NEEDS = {"preloaded_middle": "import preloaded_leaf", "preloaded_top": "import preloaded_middle"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in MODULES:
        (tmp_path / f"{name}.py").write_text(NEEDS.get(name, ""))
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in MODULES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def fork_that_imports(preloading: Preloading, name: str) -> None:
    def import_it() -> None:
        before = set(sys.modules)
        sys.modules["made_up_by_somebody"] = sys
        __import__(name)
        preloading.report(before)

    with ForkedChild(import_it) as child:
        preloading.forked()
        assert child.wait() == 0


def here() -> list[str]:
    return [name for name in MODULES if name in sys.modules]


def test_each_turn_imports_one_module_after_those_that_it_needs(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0]
    monkeypatch.setattr("kbroker.supervisor.preloading.monotonic_ms", lambda: now[0])
    preloading = Preloading()
    assert preloading.fds()
    fork_that_imports(preloading, "preloaded_top")
    assert preloading.wait_ms() is None  # it has not begun
    preloading.begin()
    assert preloading.fds() == []
    seen = []
    while preloading.wait_ms() is not None:
        preloading.import_next()
        preloading.import_next()  # too early: nothing
        seen.append(here())
        now[0] += 20
    assert [found for n, found in enumerate(seen) if found and found not in seen[:n]] == [
        list(MODULES[:1]),
        list(MODULES[:2]),
        list(MODULES),
    ]


def test_a_role_whose_first_process_died_early_preloads_nothing(folder: Path) -> None:
    preloading = Preloading()
    preloading.forked()
    preloading.begin()
    preloading.import_next()
    preloading.import_next()
    assert here() == []
    assert preloading.wait_ms() is None

"""The order of tests: the nearest first."""

from pathlib import Path

import pytest

from tests.mutants.import_graph import ImportGraph

FILES = {
    "kbroker/io/logs.py": "",
    "kbroker/io/worker.py": "from kbroker.io.logs import Logs",
    "kbroker/net/fetch.py": "import kbroker.io.worker",
    "tests/io/log_scene.py": "from kbroker.io import logs",
    "tests/io/test_cleaning.py": "from tests.io.log_scene import scene",
    "tests/api/test_direct.py": "from kbroker.io.logs import Logs",
    "tests/io/test_worker.py": "from kbroker.io.worker import Worker",
    "tests/net/test_fetch.py": "from kbroker.net.fetch import Fetch",
}


@pytest.fixture
def graph(tmp_path: Path) -> ImportGraph:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return ImportGraph(tmp_path)


def test_fewer_imports_are_first_then_the_same_folder(graph: ImportGraph) -> None:
    assert list(graph.tests_of("kbroker/io/logs.py", 3)) == [
        "tests/io/test_cleaning.py",
        "tests/api/test_direct.py",
        "tests/io/test_worker.py",
        "tests/net/test_fetch.py",
    ]


def test_far_tests_are_left_out(graph: ImportGraph) -> None:
    assert "tests/net/test_fetch.py" not in graph.tests_of("kbroker/io/logs.py", 2)

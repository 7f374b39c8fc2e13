"""Tests of Apache Kafka's programs with the file of shared classes, and without."""

from pathlib import Path

import pytest

from tests.peer import shared_classes
from tests.peer.artifacts import KAFKA
from tests.peer.java import find_java
from tests.peer.tools import run_tool


def test_without_a_file_a_program_runs_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_classes, "path", lambda java, jars: tmp_path / f"{jars}.jsa")
    assert shared_classes.options(Path("java"), "some") == ()
    (tmp_path / "some.jsa").touch()
    assert shared_classes.options(Path("java"), "some") == (f"-XX:SharedArchiveFile={tmp_path / 'some.jsa'}",)


@pytest.mark.kafka
def test_a_program_with_shared_classes_prints_nothing_about_them(kafka_jars: str) -> None:
    java = find_java()
    assert java is not None
    if not shared_classes.path(java, KAFKA).exists():
        pytest.skip("this Java cannot share classes")
    done = run_tool("kafka.tools.StorageTool", "random-uuid")
    assert done.stderr == ""
    assert len(done.stdout.strip()) == 22

"""Programs of other languages are built, or their tests say why not."""

import subprocess
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.compat.neighbours import building


def test_a_registry_that_does_not_answer_is_waited_for_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tried: list[str] = []

    def run(command: list[str], **_: Any) -> NoReturn:
        tried.append(command[0])
        raise subprocess.TimeoutExpired(command, 0)

    monkeypatch.setattr(building, "CACHE", tmp_path)
    monkeypatch.setattr(building, "SLOW", set())
    monkeypatch.setattr("shutil.which", lambda name: name)
    monkeypatch.setattr("subprocess.run", run)
    for _ in range(2):
        with pytest.raises(pytest.skip.Exception, match="go cannot build it"):
            building.built(["go", "build"], tmp_path)
        with pytest.raises(pytest.skip.Exception, match="npm cannot install"):
            building.node_with("kafkajs@2")
    assert tried == ["go", "npm"]

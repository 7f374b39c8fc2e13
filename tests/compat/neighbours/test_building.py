"""Programs of other languages are built, or their tests say why not."""

import json
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


def test_an_installed_version_needs_no_registry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ran: list[list[str]] = []

    def ends_well(command: list[str], _timeout_s: float) -> bool:
        ran.append(command)
        version = command[-1].rpartition("@")[2]
        package = tmp_path / "kafkajs" / "node_modules" / "kafkajs" / "package.json"
        package.parent.mkdir(parents=True, exist_ok=True)
        package.write_text(json.dumps({"version": version}))
        lock = {"packages": {"node_modules/kafkajs": {"version": version}}}
        if version != "3":  # it is interrupted
            (tmp_path / "kafkajs" / "package-lock.json").write_text(json.dumps(lock))
        return True

    monkeypatch.setattr(building, "CACHE", tmp_path)
    monkeypatch.setattr(building, "SLOW", set())
    monkeypatch.setattr(building, "ends_well", ends_well)
    monkeypatch.setattr("shutil.which", lambda name: name)
    for version in ("2", "2", "3", "3"):
        building.node_with(f"kafkajs@{version}")
    assert [command[-1] for command in ran] == ["kafkajs@2", "kafkajs@3", "kafkajs@3"]

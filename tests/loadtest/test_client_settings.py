"""Settings of a file reach every client of a run, and neither a command line nor a file of the
run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from loadtest.brokers import reached
from loadtest.client_settings import (
    CLIENT_SETTINGS,
    client_settings,
    give_settings,
    java_settings,
)
from loadtest.settings import WrongSetting


def test_without_a_file_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CLIENT_SETTINGS, raising=False)
    assert (client_settings(), java_settings()) == ({}, {})


def test_a_child_process_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CLIENT_SETTINGS, "")
    give_settings({"sasl.username": "alice"}, {"sasl.mechanism": "PLAIN"})
    code = "import json; from loadtest import client_settings as c; "
    code += "print(json.dumps([c.client_settings(), c.java_settings()]))"
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [{"sasl.username": "alice"}, {"sasl.mechanism": "PLAIN"}]


def test_the_reader_gives_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(CLIENT_SETTINGS, "")
    monkeypatch.setattr("loadtest.client_settings.readers", [lambda *given: ({"a": str(given)}, {})])
    file = tmp_path / "client.properties"
    assert reached("localhost:1", file, judged=True) == "localhost:1"
    assert client_settings() == {"a": str((file, "localhost:1", True))}
    with pytest.raises(WrongSetting, match="expected host:port"):
        reached("localhost", file)


def test_without_a_reader_the_file_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("loadtest.client_settings.readers", [])
    with pytest.raises(WrongSetting, match="kbroker judge"):
        reached("localhost:1", tmp_path)

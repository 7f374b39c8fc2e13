"""Fixtures of followers."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kbroker.io.replication import following as module
from tests.io.replication.following_scene import Scene

Make = Callable[..., Scene]


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    def make(**given: Any) -> Scene:
        made = Scene(tmp_path, **given)
        monkeypatch.setattr(time, "monotonic_ns", lambda: made.now_ns)
        return made

    monkeypatch.setattr(module, "wake_process", lambda shared, process: None)
    return make

"""Free space of the log dirs, as the console shows it."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from kbroker.http.console.space import Space
from kbroker.ipc.log_dir_errors import LogDirErrors
from tests.http.scene import Scene


def test_the_console_and_metrics_have_the_same_forecast(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scrapes and samples of the console take turns; each sees what the other has seen."""
    scene = Scene(tmp_path)
    space = Space(LogDirErrors([str(tmp_path)], scene.shared), scene.collector.forecasts)
    free = 2_000_000

    def statvfs(_: str) -> SimpleNamespace:
        return SimpleNamespace(f_blocks=4_000_000, f_bfree=free, f_bavail=free, f_frsize=4096)

    monkeypatch.setattr(os, "statvfs", statvfs)
    for _ in range(10):
        scene.now += 10
        free -= 10_000
        (shown,) = space.sample(scene.now)
        scene.now += 10
        free -= 10_000
        scraped = scene.scrape()
    (shown,) = space.sample(scene.now)
    assert shown["full_in_s"] == round(scraped.value("kbroker_log_dir_full_seconds", dir=str(tmp_path)))
    assert shown["full_in_s"] == pytest.approx(1800)


def test_a_log_dir_without_a_forecast_has_sizes(tmp_path: Path) -> None:
    """It was offline at the start."""
    errors = LogDirErrors([str(tmp_path)], Scene(tmp_path).shared)
    (shown,) = Space(errors, {}).sample(1.0)
    assert shown["size_bytes"] > shown["free_bytes"] > 0
    assert shown["full_in_s"] is None

"""Turns of a real broker, from the command line's call to the report."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from kbroker.config.broker import BrokerConfig
from tests.peer.kbroker_node import ROOT
from tests.tuning.fakes import on, situation
from tests.tuning.verify.samples import broker_change
from tuning.verify.broker import TurnFailed
from tuning.verify.command import Files, prove
from tuning.verify.figures import FIGURES
from tuning.verify.plan import Plan
from tuning.verify.turn import PREFIX, turns_below

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def brokers_below(folder: Path) -> list[psutil.Process]:
    """Processes that have files of a turn open; they call themselves kbroker, without a path."""
    found = []
    for process in psutil.process_iter():
        try:
            if "kbroker" in " ".join(process.cmdline()) and any(
                each.path.startswith(str(folder)) for each in process.open_files()
            ):
                found.append(process)
        except psutil.Error:
            continue
    return found


def test_two_short_turns_measure_everything_and_leave_nothing(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    base = on(situation(tmp_path / "root"), log_dirs=(str(tmp_path / "logs"),))
    host = replace(base, config=BrokerConfig({"num.network.threads": "1", "num.io.threads": "1"}))
    turn = turns_below(tmp_path / "logs", 64 << 10, 64 << 20)
    plan = Plan((broker_change(),), (), 1, 2.0, 300.0)
    shown: list[str] = []
    files = Files(tmp_path / "a.json", tmp_path / "a.html", tmp_path / "a.properties")
    assert prove(host, plan, files, turn, lambda _: None, shown.append) == 0
    reported = json.loads((tmp_path / "a.json").read_text())
    (change,) = reported["changes"]
    assert change["verdict"] == "undecided"  # a turn of each side shows nothing
    assert [each["key"] for each in change["figures"]] == [each.key for each in FIGURES]
    for figure in change["figures"]:
        assert len(figure["without"]) == len(figure["with"]) == 1
        assert min(*figure["without"], *figure["with"]) > 0
    assert "too few turns" in shown[0]
    assert not list((tmp_path / "logs").iterdir())
    assert brokers_below(tmp_path) == []


def test_a_setting_that_the_broker_refuses_is_a_failed_turn(tmp_path: Path) -> None:
    with pytest.raises(TurnFailed, match=r"num\.io\.threads"):
        turns_below(tmp_path, 64 << 10, 1 << 20)({"num.io.threads": "none"}, 2.0)
    assert not list(tmp_path.iterdir())


def test_ctrl_c_stops_the_broker_and_removes_its_data(tmp_path: Path) -> None:
    words = ("verify", "--dir", str(tmp_path), "--try", "kbroker.ring.entries=2048", "--minutes", "5")
    run = subprocess.Popen(
        [sys.executable, "-m", "tuning", *words],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob(f"{PREFIX}*/data/bulk-0")):
        assert time.monotonic() < deadline
        assert run.poll() is None, run.communicate()
        time.sleep(0.05)
    assert brokers_below(tmp_path)
    os.kill(run.pid, signal.SIGINT)
    reported, _ = run.communicate(timeout=60)
    assert run.returncode == 130
    assert "Ended by SIGINT" in reported
    assert not list(tmp_path.iterdir())
    assert brokers_below(tmp_path) == []

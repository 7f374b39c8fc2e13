"""`make help`, the first thing that a developer with a clone reads."""

import re
import subprocess

from docs.generated import ROOT

MAX_COLUMNS = 120


def test_the_broker_of_make_run_serves_a_new_group_at_once() -> None:
    """As with Apache Kafka's sample settings; the default is 3 s."""
    shown = subprocess.check_output(
        ["make", "-C", str(ROOT), "-n", "run", "PORT=19092", "DATA=/somewhere"], text=True
    )
    (serve,) = re.findall(r"exec \S+/kbroker serve ((?:.*\\\n)*.*)", shown)
    assert re.findall(r"--override (\S+)", serve) == [
        "listeners=PLAINTEXT://127.0.0.1:19092",
        "log.dirs=/somewhere",
        "group.initial.rebalance.delay.ms=0",
    ]


def test_it_lists_every_described_target_in_its_room_and_in_columns() -> None:
    shown = subprocess.check_output(["make", "-C", str(ROOT), "--no-print-directory", "help"], text=True)
    described = re.findall(r"^([a-z-]+):.*## (.*)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    lines = shown.splitlines()
    for target, text in described:
        assert target == "help" or f"  make {target:<16} {text}" in lines
    assert "make run" in lines[0]
    assert {"the broker", "tests", "packages"} <= set(lines)
    assert [line for line in lines if len(line) > MAX_COLUMNS] == []

"""The stand-in for systemd waits for what a service reports, and fails as systemd does."""

import signal
import sys
from pathlib import Path

import pytest

from kbroker.cli.systemd import unit
from tests.docs.systemctl import main, start

READY = """
import os, socket, sys, time
socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"READY=1", "\\0" + os.environ["NOTIFY_SOCKET"][1:])
print("serves", *sys.argv[1:], flush=True)
time.sleep(60)
"""


def written(units: Path, text: str) -> Path:
    """A service of this program."""
    program = units / "program"
    program.write_text(f"#!{sys.executable}\n{text}")
    program.chmod(0o755)
    (units / "kbroker.service").write_text(unit(program, ""))
    return units


def test_a_service_starts_and_stops(tmp_path: Path) -> None:
    units = written(tmp_path, READY)
    main(units, tmp_path / "state", ["daemon-reload"])
    service = start(units, tmp_path / "state")
    assert int((units / "kbroker.pid").read_text()) == service.pid
    main(units, tmp_path / "state", ["stop", "kbroker"])
    main(units, tmp_path / "state", ["stop", "kbroker"])
    assert service.wait(10) == -signal.SIGTERM
    assert (units / "kbroker.log").read_text() in (
        "",
        f"serves serve --override log.dirs={tmp_path / 'state'}\n",
    )


def test_a_service_that_ends_before_it_is_ready_fails_with_its_log(tmp_path: Path) -> None:
    units = written(tmp_path, "print('no such setting'); raise SystemExit(2)")
    with pytest.raises(SystemExit, match="no such setting"):
        main(units, tmp_path, ["start", "kbroker"])
    with pytest.raises(SystemExit, match="unknown here"):
        main(units, tmp_path, ["mask", "kbroker"])

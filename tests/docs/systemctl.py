"""systemctl without systemd, for the pages' commands: it starts and stops the command of the unit
that `kbroker systemd` has written, and waits until the service reports that it is ready.

``python -m tests.docs.systemctl UNITS STATE WORD...``: UNITS holds kbroker.service; the log and the
pid are written beside it. STATE stands for /var/lib/kbroker, which systemd would create.
"""

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from kbroker.cli.systemd import STATE
from kbroker.supervisor.service_manager import ADDRESS

NAME = "kbroker"
WAIT_S = 200
START = (["start", NAME], ["enable", "--now", NAME])


def main(units: Path, state: Path, words: list[str]) -> None:
    """One command of those that pages have."""
    if words == ["daemon-reload"]:
        _command(units, state)
    elif words in START:
        start(units, state)
    elif words == ["stop", NAME]:
        stop(units)
    else:
        sys.exit(f"systemctl {' '.join(words)}: unknown here")


def _command(units: Path, state: Path) -> list[str]:
    """The program and its arguments."""
    pairs = [line.partition("=") for line in (units / f"{NAME}.service").read_text().splitlines()]
    service = {key: value for key, _, value in pairs}
    assert service["Type"] == "notify"
    return shlex.split(service["ExecStart"].replace(str(STATE), str(state)))


def start(units: Path, state: Path) -> "subprocess.Popen[bytes]":
    """The service, once it is ready; fails with its log if it ends."""
    address = f"@{NAME}-{os.getpid()}"
    log = units / f"{NAME}.log"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready, log.open("ab") as out:
        ready.bind(f"\0{address[1:]}")
        ready.settimeout(0.2)
        process = subprocess.Popen(
            _command(units, state),
            cwd="/",
            env=os.environ | {ADDRESS: address},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
        (units / f"{NAME}.pid").write_text(str(process.pid))
        deadline = time.monotonic() + WAIT_S
        while process.poll() is None and time.monotonic() < deadline:
            try:
                message = ready.recv(64)
            except TimeoutError:
                continue
            assert message == b"READY=1"
            return process
    sys.exit(f"Job for {NAME}.service failed.\n{log.read_text()[-3000:]}")


def stop(units: Path) -> None:
    """Returns when the service has ended; at once if it does not run."""
    file = units / f"{NAME}.pid"
    if not file.exists():
        return
    pid = int(file.read_text())
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + WAIT_S
    while _runs(pid):
        assert time.monotonic() < deadline, f"{pid} does not end"
        time.sleep(0.05)
    file.unlink()


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])

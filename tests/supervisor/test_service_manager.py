"""systemd gets one message, when the broker is ready."""

import os
import socket
import sys
from pathlib import Path

import pytest

from kbroker.supervisor.service_manager import ADDRESS, report_ready
from tests.peer.eventually import eventually
from tests.peer.ports import free_port
from tests.peer.program import program


@pytest.mark.parametrize("abstract", [True, False])
def test_the_message_reaches_both_kinds_of_sockets(
    abstract: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"@kbroker-{os.getpid()}" if abstract else str(tmp_path / "notify")
    monkeypatch.setenv(ADDRESS, name)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(f"\0{name[1:]}" if abstract else name)
        systemd.settimeout(10)
        report_ready()
        assert systemd.recv(64) == b"READY=1"


def test_a_missing_socket_is_logged_and_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(ADDRESS, str(tmp_path / "none"))
    report_ready()
    assert [record.getMessage() for record in caplog.records] == [
        f"systemd does not know that the broker is ready: {tmp_path}/none: No such file or directory"
    ]


@pytest.mark.compat
@pytest.mark.timeout(300)
def test_a_broker_is_ready_when_systemd_is_notified(tmp_path: Path) -> None:
    name, port, log = str(tmp_path / "notify"), free_port(), tmp_path / "log"
    settings = {
        "log.dirs": tmp_path / "data",
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "kbroker.http.listen": "",
    }
    words = [word for key, value in settings.items() for word in ("--override", f"{key}={value}")]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd, log.open("wb") as out:
        systemd.bind(name)
        systemd.settimeout(240)
        command = [sys.executable, "-m", "kbroker", "serve", *words]
        with program(command, stdout=out, stderr=out, env=os.environ | {ADDRESS: name}) as broker:
            assert systemd.recv(64) == b"READY=1"
            with socket.create_connection(("127.0.0.1", port), timeout=10):
                pass
            eventually(lambda: "kbroker ready in" in log.read_text())
            broker.terminate()
            assert broker.wait(120) == 0
        systemd.setblocking(False)
        with pytest.raises(BlockingIOError):
            systemd.recv(64)

"""The trial of an installation in a bare Debian takes nothing of this machine along but the way to
its packages."""

import socket
import subprocess
from pathlib import Path

import pytest

from release import try_install


def test_the_way_to_packages_is_passed_on_and_folders_of_this_machine_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://example.org/packages")
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:3128")
    monkeypatch.setenv("PIP_FIND_LINKS", "/wheels")
    monkeypatch.setenv("PYTHONPATH", "/here")
    found = try_install.environment()
    assert found["PIP_INDEX_URL"] == "https://example.org/packages"
    assert found["https_proxy"] == "http://127.0.0.1:3128"
    assert not {"PIP_FIND_LINKS", "PYTHONPATH"} & found.keys()
    assert found["HOME"] == "/root"


def test_mounts_are_private_to_the_command_and_words_stay_words() -> None:
    unshare, *_, script = try_install.command_in(Path("/a b"), ["echo", "x y", "$z"], "/root")
    assert unshare == "unshare"
    shown = script.replace("mount ", "echo mount ").replace("exec chroot", "exec echo chroot")
    lines = subprocess.check_output(["/bin/sh", "-c", shown], text=True).splitlines()
    assert lines[0] == "mount -t proc proc /a b/proc"
    assert lines[-1] == "chroot /a b /bin/sh -c cd /root && exec echo 'x y' '$z'"


def test_without_root_or_debootstrap_it_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shutil.which", lambda _name: None)
    monkeypatch.setattr("sys.argv", ["try_install", "--folder", str(tmp_path)])
    assert try_install.main() == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "make try-install: this needs root and debootstrap: apt-get install debootstrap"


def test_an_unknown_way_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["try_install", "wheels"])
    with pytest.raises(SystemExit) as ended:
        try_install.main()
    assert ended.value.code == 2


def test_who_is_silent_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not try_install.answers(server.getsockname()[1])
    assert not try_install.answers(try_install.free_port())

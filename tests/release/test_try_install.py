"""The trial of an installation in a bare Debian takes nothing of this machine along but the way to
its packages."""

import os
import socket
import subprocess
import sys
import time
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


@pytest.mark.parametrize(
    ("user", "missing"),
    [
        (1000, "this needs root: it mounts and enters other file trees"),
        (0, "this needs debootstrap: apt-get install debootstrap"),
    ],
)
def test_a_missing_right_or_program_is_the_only_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    user: int,
    missing: str,
) -> None:
    """Nothing is installed or built before: neither .venv nor a wheel."""
    monkeypatch.setattr("os.geteuid", lambda: user)
    monkeypatch.setattr("shutil.which", lambda _name: None)
    monkeypatch.setattr("sys.argv", ["try_install", "--folder", str(tmp_path)])
    monkeypatch.setattr(try_install, "wheel", lambda _log: pytest.fail("a wheel was made"))
    assert try_install.main() == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"make try-install: {missing}"
    dry = ["make", "-C", str(try_install.ROOT), "--no-print-directory", "-n", "try-install"]
    (command,) = subprocess.check_output(dry, text=True).splitlines()
    assert command.split()[1:] == ["-m", "release.try_install"]


def test_a_program_of_python_alone_runs_it() -> None:
    """A clone has no packages before `make venv`."""
    command = [sys.executable, "-S", "-m", "release.try_install", "--help"]
    assert "make try-install" in subprocess.check_output(command, cwd=try_install.ROOT, text=True)


def test_the_wheel_is_made_unless_one_is_newer_than_the_last_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    makefile = ".PHONY: dist\ndist:\n\techo made >> log; mkdir -p dist; touch dist/$(WHEEL)\n"
    (tmp_path / "Makefile").write_text(makefile)
    name = f"kbroker-0.1.0-cp{sys.version_info.major}{sys.version_info.minor}-none-linux_x86_64.whl"
    monkeypatch.setenv("WHEEL", name)
    monkeypatch.setattr(try_install, "ROOT", tmp_path)
    monkeypatch.setattr(try_install, "committed_at", lambda: time.time() - 60)
    for _ in range(2):
        assert try_install.wheel(tmp_path / "wheel.log") == tmp_path / "dist" / name
    assert (tmp_path / "log").read_text() == "made\n"
    os.utime(tmp_path / "dist" / name, (1, 1))
    try_install.wheel(tmp_path / "wheel.log")
    assert (tmp_path / "log").read_text() == "made\nmade\n"
    monkeypatch.setenv("WHEEL", "kbroker-0.1.0-py3-none-any.whl")
    (tmp_path / "dist" / name).unlink()
    with pytest.raises(try_install.CannotTry, match="made no wheel with compiled kernels"):
        try_install.wheel(tmp_path / "wheel.log")


def test_an_unknown_way_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["try_install", "wheels"])
    with pytest.raises(SystemExit) as ended:
        try_install.main()
    assert ended.value.code == 2


def test_who_is_silent_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not try_install.answers(server.getsockname()[1])
    assert not try_install.answers(try_install.free_port())

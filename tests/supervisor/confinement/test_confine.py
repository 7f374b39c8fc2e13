"""A confined process does what its role needs and nothing else, where the kernel has the means."""

import ctypes
import os
import signal
import socket
import ssl
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kbroker.metrics.slots import ROW_WORDS, Slots, bind
from kbroker.supervisor.confinement import capabilities, landlock, seccomp
from kbroker.supervisor.confinement.confine import SETTING, confine
from kbroker.supervisor.confinement.system_calls import NUMBERS
from kbroker.supervisor.roles import ROLES
from tests.supervisor.confinement.child import in_child, outcome
from tests.supervisor.confinement.kernel_features import has_seccomp

HAS_LANDLOCK = landlock.version() > 0
NEEDS = {role.name: role.needs for role in ROLES}
needs_landlock = pytest.mark.skipif(not HAS_LANDLOCK, reason="this kernel has no Landlock")
ROW: Any = np.zeros((1, ROW_WORDS), np.int64)


needs_seccomp = pytest.mark.skipif(
    in_child(has_seccomp) != "True", reason="this kernel has no seccomp filters"
)


def context(enabled: bool = True) -> Any:
    return SimpleNamespace(
        config=SimpleNamespace(get_bool=lambda name: enabled and name == SETTING),
        shared=SimpleNamespace(metrics=ROW),
        process=0,
        title="kbroker: test",
    )


def as_role(role: str, function: Callable[[], object], enabled: bool = True) -> str:
    """What a process of this role gets from the function."""

    def run() -> str:
        confine(context(enabled), NEEDS[role])
        return outcome(function)

    return in_child(run)


def attempts(folder: Path) -> dict[str, Callable[[], object]]:
    here = folder / "there"
    here.write_text("as it was")
    return {
        "write": partial(open, here, "w"),
        "append": partial(open, here, "a"),
        "update": partial(open, here, "r+"),
        "make": partial(open, folder / "new", "x"),
        "unnamed file": partial(os.open, folder, os.O_TMPFILE | os.O_WRONLY),
        "remove": here.unlink,
        "rename": partial(here.rename, folder / "other"),
        "folder": (folder / "sub").mkdir,
        "link": partial((folder / "link").symlink_to, here),
        "mode": partial(here.chmod, 0o777),
        "truncate": partial(os.truncate, here, 0),
    }


NAMES = (
    "write",
    "append",
    "update",
    "make",
    "unnamed file",
    "remove",
    "rename",
    "folder",
    "link",
    "mode",
    "truncate",
)


@needs_seccomp
@pytest.mark.parametrize("role", ["network", "http"])
@pytest.mark.parametrize("name", NAMES)
def test_a_process_of_clients_changes_no_file(tmp_path: Path, role: str, name: str) -> None:
    assert as_role(role, attempts(tmp_path)[name]) == "PermissionError"
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {"there": "as it was"}


@needs_landlock
@pytest.mark.parametrize("name", [name for name in NAMES if name != "mode"])
def test_landlock_alone_refuses_to_change_a_file(tmp_path: Path, name: str) -> None:
    def run() -> str:
        ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)
        landlock.forbid_writing()
        return outcome(attempts(tmp_path)[name])

    assert in_child(run) == "PermissionError"


@pytest.mark.parametrize("role", ["control", "io", "cleaner"])
@pytest.mark.parametrize("name", NAMES)
def test_a_process_that_owns_files_changes_them(tmp_path: Path, role: str, name: str) -> None:
    assert as_role(role, attempts(tmp_path)[name]) == "done"


@needs_seccomp
@pytest.mark.parametrize("role", NEEDS)
def test_no_process_starts_a_program(role: str) -> None:
    assert as_role(role, partial(os.execv, "/bin/true", ["true"])) == "PermissionError"


@needs_seccomp
def test_a_thread_is_confined_like_its_process(tmp_path: Path) -> None:
    found: list[str] = []

    def run() -> str:
        confine(context(), NEEDS["network"])
        thread = threading.Thread(target=lambda: found.append(outcome(partial(open, tmp_path / "new", "w"))))
        thread.start()
        thread.join()
        return found[0]

    assert in_child(run) == "PermissionError"


@needs_landlock
def test_a_network_process_cannot_listen_or_send_signals() -> None:
    if landlock.version() >= landlock.NETWORK_SINCE:
        assert as_role("network", partial(socket.create_server, ("127.0.0.1", 0))) == "PermissionError"
    if landlock.version() >= landlock.SCOPES_SINCE:
        assert as_role("network", partial(os.kill, os.getpid(), signal.SIGURG)) == "PermissionError"


@pytest.mark.parametrize("role", NEEDS)
def test_a_process_keeps_what_it_needs(tmp_path: Path, role: str) -> None:
    (tmp_path / "log").write_text("records")

    def work() -> None:
        assert (tmp_path / "log").read_text() == "records"
        assert list(tmp_path.iterdir())
        fd = os.memfd_create("pem")
        os.write(fd, b"key")
        with open(f"/proc/self/fd/{fd}", "rb") as file:  # as OpenSSL reads a key that is in no file
            assert file.read() == b"key"
        ours, theirs = socket.socketpair()
        ours.send(b"x")
        assert theirs.recv(1) == b"x"
        os.kill(os.getpid(), 0)
        ssl.create_default_context()
        listening = server.getsockname()
        socket.create_connection(listening).close()

    with socket.create_server(("127.0.0.1", 0)) as server:
        assert as_role(role, work) == "done"


@pytest.mark.parametrize("role", NEEDS)
def test_no_capability_stays_but_for_files_and_for_looking_at_processes(role: str) -> None:
    def left() -> int:
        confine(context(), NEEDS[role])
        lines = dict(line.split(":\t") for line in Path("/proc/self/status").read_text().splitlines())
        return int(lines["CapEff"], 16) | int(lines["CapPrm"], 16) | int(lines["CapAmb"], 16)

    allowed = {*capabilities.OF_WRITERS, *capabilities.OF_OBSERVERS}
    assert int(in_child(left)) & ~sum(1 << number for number in allowed) == 0


def test_the_setting_leaves_a_process_as_it_is(tmp_path: Path) -> None:
    assert as_role("network", attempts(tmp_path)["write"], enabled=False) == "done"


@needs_seccomp
def test_a_gauge_shows_each_way(tmp_path: Path) -> None:
    def shown() -> list[int]:
        confine(context(), NEEDS["network"])
        words = Slots(ROW[0]).words
        return [
            int(words[bind("kbroker_process_confined", confinement=way)])
            for way in ("capabilities", "seccomp", "landlock")
        ]

    assert in_child(shown) == str([1, 1, int(HAS_LANDLOCK)])


@pytest.mark.parametrize("machine", NUMBERS)
def test_every_jump_of_the_filter_stays_inside(machine: str) -> None:
    code = seccomp.program(machine, writes_files=False)
    steps = [
        seccomp.INSTRUCTION.unpack_from(code, at) for at in range(0, len(code), seccomp.INSTRUCTION.size)
    ]
    for place, (kind, then, otherwise, _) in enumerate(steps):
        if kind in (seccomp.EQUAL, seccomp.AT_LEAST, seccomp.ANY_BIT):
            assert place + 1 + max(then, otherwise) < len(steps)
    assert steps[-1] == (seccomp.RETURN, 0, 0, seccomp.ALLOW)
    assert len(steps) < 4096


def test_names_of_refused_calls_are_known() -> None:
    known = set().union(*NUMBERS.values())
    assert known >= {*seccomp.REFUSED_TO_ALL, *seccomp.NO_READER, *seccomp.FLAGS_OF_OPEN}

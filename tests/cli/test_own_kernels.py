"""Commands that work on files take their kernels from an image: importing numba takes seconds, and
a container has no compiler."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kbroker.cli.failures import CommandFailed
from kbroker.cli.own_kernels import use_kernels
from kbroker.kernels import image, installed
from tests.cli.conftest import Shell
from tests.peer.kbroker_node import KBroker

PROGRAM = """
import sys
from kbroker.cli.app import run
code = run(sys.argv[1:])
print(sorted({"numba", "llvmlite.binding"} & set(sys.modules)), code, file=sys.stderr)"""


def last_line(*words: str, stdin: str = "") -> str:
    """Which compilers a command has imported, and its exit code."""
    command = [sys.executable, "-c", PROGRAM, *words]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=True)
    return done.stderr.splitlines()[-1]


@pytest.fixture
def kernels() -> None:
    if os.environ.get("KBROKER_NO_KERNELS") != "1" and not image.path().exists():
        pytest.skip("no image of compiled kernels here")


@pytest.mark.usefixtures("kernels")
def test_commands_on_the_files_of_a_new_broker_import_no_compiler(tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={tmp_path / 'data'}\n")
    password = ("--offline", str(properties), "--password-file", "-")
    assert last_line("users", "add", "admin", *password, stdin="secret\n") == "[] 0"
    (tmp_path / "00000000000000000000.log").touch()
    assert last_line("log", "dump", str(tmp_path / "00000000000000000000.log")) == "[] 0"


@pytest.mark.compat
@pytest.mark.usefixtures("kernels")
def test_commands_on_the_files_of_a_full_broker_import_no_compiler(tmp_path: Path) -> None:
    node = KBroker(tmp_path)
    node.start()
    try:
        assert last_line("backup", str(tmp_path / "backup"), "-b", node.bootstrap) == "[] 0"
    finally:
        node.stop()
    assert last_line("restore", str(tmp_path / "backup"), str(tmp_path / "restored")) == "[] 0"
    assert last_line("export", "kraft", str(node.data_dir)) == "[] 0"


def test_neither_an_image_nor_a_compiler_is_one_line(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(image, "use", lambda: False)
    use_kernels()
    monkeypatch.setattr(installed, "has_compiler", lambda: False)
    with pytest.raises(CommandFailed, match=r"the compiled kernels .*; no compiler is installed here"):
        use_kernels()
    (tmp_path / "00000000000000000000.log").touch()
    done = shell("log", "dump", tmp_path, code=1)
    assert len(done.stderr.splitlines()) == 1

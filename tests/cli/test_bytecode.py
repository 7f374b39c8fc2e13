"""A broker keeps byte code in its cache where Python keeps none, and only there."""

import os
import subprocess
import sys
from pathlib import Path

import kbroker

ROOT = Path(kbroker.__file__).parents[1]
BESIDE = """
import sys
from kbroker.cli.bytecode import keep_bytecode
keep_bytecode({beside!r})
import kbroker.ipc.clock
print(sys.pycache_prefix, sys.dont_write_bytecode, kbroker.ipc.clock.__spec__.cached, sep="\\n")
"""


def run(home: Path, beside: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """A process that may not write byte code, and asks for a folder for it. beside: where Python
    would keep it."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPYCACHEPREFIX"}
    return subprocess.run(
        [sys.executable, *options, "-c", BESIDE.format(beside=str(beside))],
        env=clean | {"XDG_CACHE_HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip


def test_byte_code_is_kept_in_the_cache_and_used_by_the_next_process(tmp_path: Path) -> None:
    first = run(tmp_path, tmp_path / "nothing")
    folder, forbidden, file = first.stdout.splitlines()
    assert Path(folder) == tmp_path / "kbroker" / "bytecode"
    assert forbidden == "False"
    assert file.startswith(folder)
    kept = Path(file).stat()
    second = run(tmp_path, tmp_path / "nothing", "-v")
    assert second.stdout == first.stdout
    assert f"code object from {file!r}" in second.stderr
    assert Path(file).stat().st_mtime_ns == kept.st_mtime_ns


def test_byte_code_beside_the_sources_is_all_that_is_needed(tmp_path: Path) -> None:
    beside = tmp_path / "module.pyc"
    beside.touch()
    folder, forbidden, _ = run(tmp_path, beside).stdout.splitlines()
    assert (folder, forbidden) == ("None", "True")
    assert not (tmp_path / "kbroker").exists()


def test_a_folder_that_python_was_given_stays(tmp_path: Path) -> None:
    own = tmp_path / "own"
    folder = run(tmp_path, tmp_path / "nothing", "-X", f"pycache_prefix={own}").stdout.splitlines()[0]
    assert Path(folder) == own
    assert not (tmp_path / "kbroker").exists()

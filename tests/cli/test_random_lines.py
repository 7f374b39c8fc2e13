"""Random command lines without a broker: each ends with an exit code that docs/cli.md lists, and
with a sentence.

KBROKER_LINES says how many lines each command gets, KBROKER_CRASH_SEED draws others.
"""

import os
import subprocess
import sys
from collections.abc import Collection
from importlib import import_module
from pathlib import Path
from random import Random

import pytest

from kbroker.cli.docs import WITH_CODES_OF_THEIR_OWN
from kbroker.cli.exit_codes import ExitCode
from loadtest.exit_codes import WRONG_USE
from tests.cli.conftest import Result, Shell
from tests.cli.random_lines import CLOSED, FIXED, LONG, commands, line
from tests.crash.seeds import VARIABLE

SEED = int(os.environ.get(VARIABLE, "1"))
LINES = int(os.environ.get("KBROKER_LINES", "4"))
COMMANDS = commands()
FINDINGS = (("tune check", 1), ("tune size", 1))
"""Commands and codes that say something of the host, on stdout."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder of the commands, with files that they may be given."""
    (tmp_path / "text").write_text("a: b\nkey=value\n{}\n")
    (tmp_path / "bytes").write_bytes(bytes(range(256)))
    (tmp_path / "empty").touch()
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KBROKER_BOOTSTRAP", CLOSED)
    monkeypatch.setattr(sys, "argv", [*sys.argv])  # `judge` sets its name
    return tmp_path


def own_codes(name: str) -> Collection[int]:
    """The exit codes of a command; of one with much work only those before it."""
    program = name.split()[0]
    if name in LONG:
        return (ExitCode.USAGE, WRONG_USE) if program == "loadtest" else (ExitCode.USAGE,)
    module = WITH_CODES_OF_THEIR_OWN.get(program)
    return tuple(import_module(module).EXIT_CODES if module else ExitCode)


def serve(words: list[str]) -> Result:
    """In a process of its own: it changes signals and rights of its process."""
    done = subprocess.run(
        [sys.executable, "-m", "kbroker", *words],
        stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    return Result(done.returncode, done.stdout, done.stderr.decode(errors="replace"))


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", COMMANDS)
def test_any_command_line_ends_with_a_known_code_and_no_traceback(shell: Shell, name: str) -> None:
    chance = Random(f"{SEED} {name}")
    codes = own_codes(name)
    for _ in range(LINES):
        words = line(name, COMMANDS[name], chance)
        stdin = chance.choice((b"", b"a\n", b"k\tv\n\xff\n", b"{}\n"))
        try:
            done = serve(words) if name == "serve" else shell(*words, stdin=stdin, code=codes)
        except Exception as error:
            raise AssertionError(f"{words}, seed {SEED}") from error
        assert done.code in codes, f"{words}, seed {SEED}: {done.code}, {done.stderr}"
        assert "Traceback" not in done.stderr, f"{words}, seed {SEED}: {done.stderr}"
        if done.code not in (ExitCode.OK, ExitCode.INTERRUPTED) and (name, done.code) not in FINDINGS:
            assert done.stderr.strip(), f"{words}, seed {SEED}, ended with {done.code} and no reason"


def test_the_tree_of_commands_is_found() -> None:
    assert len(COMMANDS) > 75
    assert {"topics create", "consume", "log dump", "top", "tune size", "loadtest plan"} <= COMMANDS.keys()
    assert {*LONG} <= COMMANDS.keys()
    for place in FIXED:
        name, _, option = place.rpartition(" ")
        assert any(option in one.opts for one in COMMANDS[name].params), place

"""Random command lines without a broker: each ends with an exit code that docs/cli.md lists, and
with a sentence.

KBROKER_LINES says how many lines each command gets, KBROKER_CRASH_SEED draws others.
"""

import os
from pathlib import Path
from random import Random

import pytest

from kbroker.cli.exit_codes import ExitCode
from tests.cli.conftest import Shell
from tests.cli.random_lines import CLOSED, commands, line
from tests.crash.seeds import VARIABLE

SEED = int(os.environ.get(VARIABLE, "1"))
LINES = int(os.environ.get("KBROKER_LINES", "4"))
COMMANDS = commands()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder of the commands, with files that they may be given."""
    (tmp_path / "text").write_text("a: b\nkey=value\n{}\n")
    (tmp_path / "bytes").write_bytes(bytes(range(256)))
    (tmp_path / "empty").touch()
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KBROKER_BOOTSTRAP", CLOSED)
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", COMMANDS)
def test_any_command_line_ends_with_a_known_code_and_no_traceback(shell: Shell, name: str) -> None:
    chance = Random(f"{SEED} {name}")
    for _ in range(LINES):
        words = line(name, COMMANDS[name], chance)
        try:
            done = shell(
                *words, stdin=chance.choice((b"", b"a\n", b"k\tv\n\xff\n", b"{}\n")), code=tuple(ExitCode)
            )
        except Exception as error:
            raise AssertionError(f"{words}, seed {SEED}") from error
        assert "Traceback" not in done.stderr, f"{words}, seed {SEED}: {done.stderr}"
        if done.code in (ExitCode.FAILED, ExitCode.USAGE, ExitCode.UNREACHABLE):
            assert done.stderr.strip(), f"{words}, seed {SEED}, ended with {done.code} and no reason"


def test_the_tree_of_commands_is_found() -> None:
    assert len(COMMANDS) > 60
    assert {"topics create", "consume", "log dump"} <= COMMANDS.keys()

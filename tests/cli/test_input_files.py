"""A file that a command line names and that cannot be read ends every command with 2, before
anything is sent."""

from pathlib import Path

import pytest

from kbroker.cli.exit_codes import ExitCode
from kbroker.cli.failures import UsageFailed
from kbroker.cli.input_files import STDIN, first_line, open_bytes, read_text
from tests.cli.conftest import Shell

CLOSED = "127.0.0.1:1"
"""No broker listens there: a command that has contacted one ends with UNREACHABLE."""
TEXTS = (
    "topics list --command-config @",
    "users add x --password-file @",
    "users add x --offline @ --password-file -",
    "groups reset-offsets g --from-file @ --execute",
    "move --to 127.0.0.1:2 --to-config @",
    "import --from 127.0.0.1:2 --from-config @",
    "systemd @",
    "serve @",
    "tune check --config @",
)
"""Command lines with a text file at @."""
BYTES = ("produce t @",)
"""With a file of any bytes."""


@pytest.fixture
def places(tmp_path: Path) -> dict[str, Path]:
    """A path of each kind that is no text file."""
    latin = tmp_path / "latin"
    latin.write_bytes(b"name=caf\xe9\n")
    return {
        "missing": tmp_path / "none",
        "folder": tmp_path,
        "not UTF-8": latin,
        "failing": Path("/proc/self/mem"),  # its first byte cannot be read
        "below a file": latin / "file",
    }


def is_refused(shell: Shell, monkeypatch: pytest.MonkeyPatch, line: str, path: Path) -> None:
    monkeypatch.setenv("KBROKER_BOOTSTRAP", CLOSED)
    words = [str(path) if word == "@" else word for word in line.split()]
    done = shell(*words, stdin=b"secret\n", code=ExitCode.USAGE)
    assert not done.stdout
    (reason,) = done.stderr.splitlines()
    assert f"cannot read {path}: " in reason or "SERVER.PROPERTIES must name a file" in reason


@pytest.mark.parametrize("kind", ["missing", "folder", "not UTF-8", "failing", "below a file"])
@pytest.mark.parametrize("line", TEXTS)
def test_a_text_that_cannot_be_read_is_a_wrong_command_line(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, places: dict[str, Path], line: str, kind: str
) -> None:
    is_refused(shell, monkeypatch, line, places[kind])


@pytest.mark.parametrize("kind", ["missing", "folder", "below a file"])
@pytest.mark.parametrize("line", BYTES)
def test_a_file_of_records_that_cannot_be_opened_is_a_wrong_command_line(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, places: dict[str, Path], line: str, kind: str
) -> None:
    is_refused(shell, monkeypatch, line, places[kind])


@pytest.mark.parametrize("read", [open_bytes, read_text, first_line])
def test_a_file_that_the_user_may_not_read_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, read: object
) -> None:
    """The error is made here: tests may run as root, who may read everything."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert callable(read)
    with pytest.raises(UsageFailed, match=r"cannot read .*/file: Permission denied"):
        read(tmp_path / "file")


def test_a_segment_that_cannot_be_opened_is_a_wrong_command_line(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "00000000000000000000.log").symlink_to("00000000000000000000.log")
    done = shell("log", "dump", tmp_path, code=ExitCode.USAGE)
    assert f"cannot read {tmp_path}/00000000000000000000.log: Too many levels" in done.stderr
    assert not done.stdout


def test_the_first_line_is_read_without_its_end(tmp_path: Path) -> None:
    file = tmp_path / "password"
    for content in (b"secret", b"secret\n", b"secret\r\nmore\n", b"\xef\xbb\xbfsecret\n"):
        file.write_bytes(content)
        assert first_line(file) == "secret"
    assert str(STDIN) == "-"


def test_a_password_on_stdin_that_is_not_utf8_is_refused(shell: Shell) -> None:
    done = shell("users", "add", "x", "--password-file", "-", stdin=b"\xe9\n", code=ExitCode.USAGE)
    assert done.stderr == "kbroker: cannot read stdin: not UTF-8 at byte 0\n"

"""Files that the command line names as input. One that cannot be read is a wrong command line: the
command ends with 2 and has sent nothing."""

import sys
from pathlib import Path
from typing import BinaryIO

from kbroker.cli.failures import UsageFailed
from kbroker.config import properties
from kbroker.config.setting import ConfigError

STDIN = Path("-")


def unreadable(path: object, error: OSError) -> UsageFailed:
    """The failure of a command whose input cannot be read."""
    return UsageFailed(f"cannot read {path}: {error.strerror}")


def open_bytes(path: Path) -> BinaryIO:
    """A file of any bytes, opened; a folder is none. Raises UsageFailed."""
    try:
        return open(path, "rb")
    except OSError as error:
        raise unreadable(path, error) from error


def read_text(path: Path) -> str:
    """The text of a file in UTF-8, with its line ends. Raises UsageFailed."""
    try:
        return properties.read_text(path)
    except ConfigError as error:
        raise UsageFailed(str(error)) from error


def first_line(path: Path) -> str:
    """The first line of a file in UTF-8, or of stdin for STDIN. Raises UsageFailed."""
    if path != STDIN:
        return read_text(path).partition("\n")[0].rstrip("\r")
    try:
        return sys.stdin.buffer.readline().decode().rstrip("\r\n")
    except OSError as error:
        raise unreadable("stdin", error) from error
    except UnicodeDecodeError as error:
        raise UsageFailed(f"cannot read stdin: not UTF-8 at byte {error.start}") from error

"""Declared writers of rows: a write is checked against the room of the code that makes it."""

import re
import sys
from collections.abc import Callable
from types import FrameType
from typing import Protocol

from msgspec import Struct

WORD_BYTES = 8
ROOMS = {
    "kbroker.net": "network",
    "kbroker.io": "io",
    "kbroker.control": "control",
    "kbroker.cleaner": "cleaner",
}
ROOMS |= {"kbroker.http": "http", "kbroker.supervisor": "supervisor"}
PROCESS = re.compile(rf"\b(?:{'|'.join(ROOMS.values())})\b")
CLIENT_PROCESSES = {"network", "control"}  # that own an arena and append


class WrongWriter(Exception):
    """A process writes a word whose declared writer is another."""


def process() -> str:
    """The process whose code runs, by the room of the innermost function that is in one; "" for a
    test."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name.startswith("kbroker."):
            room = ".".join(name.split(".", 2)[:2])
            if room in ROOMS:
                return ROOMS[room]
        elif name.startswith("tests."):
            return ""
        frame = frame.f_back
    return ""


def may_write(writer: str, writing_process: str) -> bool:
    """Whether a process is among a word's declared writers. A writer that names no process is not
    checked."""
    named = set(PROCESS.findall(writer))
    if writer == "client process":
        named = CLIENT_PROCESSES
    return not named or not writing_process or writing_process in named


class Field(Protocol):
    """A declared field of a row."""

    @property
    def name(self) -> str: ...

    @property
    def writer(self) -> str: ...


class Declaration(Protocol):
    """A declared kind of row (`kernels/row.py`)."""

    __name__: str
    writer: str
    WORDS: int

    def field_at(self, number: int) -> Field | None: ...


class Rows(Struct, frozen=True, eq=False):
    """A table in memory. writer: in place of the declared one, of a copy that its owner keeps."""

    start: int
    end: int
    row: Declaration
    writer: str = ""

    def check(self, address: int, size: int, place: Callable[[], str]) -> None:
        """Raises WrongWriter unless the process whose code runs may write these bytes."""
        writing_process = process()
        if not writing_process:
            return
        first = (address - self.start) // WORD_BYTES
        last = (min(address + size, self.end) - 1 - self.start) // WORD_BYTES
        words = self.row.WORDS
        for number in range(first, min(last, first + words - 1) + 1):
            self.check_word(number % words, first // words, writing_process, place)

    def check_word(self, number: int, row: int, writing_process: str, place: Callable[[], str]) -> None:
        """Raises WrongWriter unless a process may write a word."""
        found = self.row.field_at(number)
        writer = self.writer or (found.writer if found else self.row.writer)
        if not may_write(writer, writing_process):
            name = found.name if found else f"word {number}"
            raise WrongWriter(
                f"{place()} writes {self.row.__name__}.{name} of row {row} as {writing_process}; its writer is {writer}"
            )

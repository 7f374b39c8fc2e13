"""The stored inputs: a file for each target, an input a line, as base64 of its bytes or, after
`z:`, of the bytes as zlib packs them. After a space follows a note, for an input that has failed
once."""

import base64
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / "corpus"
PACKED = "z:"


class Input(NamedTuple):
    """note: why the input is kept even if others have its coverage; empty for most."""

    data: bytes
    note: str = ""


def encode(data: bytes) -> str:
    """One word."""
    packed = zlib.compress(data, 9)
    if len(packed) < len(data):
        return PACKED + base64.b64encode(packed).decode()
    return base64.b64encode(data).decode() or "="


def decode(word: str) -> bytes:
    """Raises ValueError."""
    if word.startswith(PACKED):
        return zlib.decompress(base64.b64decode(word.removeprefix(PACKED)))
    return base64.b64decode(word)


def path_of(target: str, folder: Path = FOLDER) -> Path:
    return folder / f"{target}.txt"


def read(target: str, folder: Path = FOLDER) -> list[Input]:
    """The inputs of a target, none if it has no file."""
    path = path_of(target, folder)
    if not path.exists():
        return []
    lines = (line.partition(" ") for line in path.read_text().splitlines() if line)
    return [Input(decode(word), note) for word, _, note in lines]


def write(target: str, inputs: Iterable[Input], folder: Path = FOLDER) -> None:
    lines = [f"{encode(one.data)} {one.note}".rstrip() for one in inputs]
    path_of(target, folder).write_text("".join(f"{line}\n" for line in lines))

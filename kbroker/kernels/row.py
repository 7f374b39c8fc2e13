"""Tables of int64 words that kernels and Python share, each declared once as a class.

    class Chunk(Row, writer="network", words=4):
        '''A chunk of the arena.'''

        REFS = word("count", "requests and connections that hold it")

Words are numbered in the order in which they are declared. The class keeps plain numbers:
`Chunk.REFS` is the word's number, `Chunk.WORDS` and `Chunk.STRIDE` are a row's words and bytes.
Kernels take them as constants (see `jit.py`), so they cost what a literal costs.
`docs/shared-memory.md` is made from the rest.
"""

import struct
from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from kbroker.kernels import plain

WORD_BYTES = 8
LINE_WORDS = 8


class Word(msgspec.Struct, frozen=True):
    """One field. number: its first word; count: how many it takes; unit: of the number in it;
    writer: who sets it; metric: the one that shows it, or nothing."""

    name: str
    number: int
    count: int
    unit: str
    writer: str
    meaning: str
    metric: str = ""


class _Declared(msgspec.Struct, frozen=True):
    unit: str
    meaning: str
    writer: str
    metric: str
    count: int
    line: int


def word(
    unit: "str | type[Row]",
    meaning: str,
    *,
    writer: str = "",
    metric: str = "",
    count: int = 1,
    line: int = -1,
) -> int:
    """Declare the next word of a row, or the next ``count``.

    unit: the unit of its number, or the Row that lies there. writer: where it is not the table's.
    metric: the gauge of the catalogue that shows it. line: the word is the first of this cache line
    of the row.
    """
    if not isinstance(unit, str):
        count = unit.WORDS
        unit = unit.__name__
    return cast(int, _Declared(unit, meaning, writer, metric, count, line))


class Constants(type):
    """A class of plain numbers, which kernels take as constants."""


class RowType(Constants):
    """Numbers the words of a row. words: how many it has, where some are left free after the
    last."""

    __words__: Mapping[str, Word]
    writer: str
    shared: str
    WORDS: int
    STRIDE: int

    def __new__(
        cls,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        writer: str = "",
        shared: str = "",
        words: int = 0,
    ) -> "RowType":
        """writer: the process that sets words without one of their own. shared: the other processes
        that read them, if any."""
        fields: dict[str, Word] = {}
        numbers: dict[str, int] = {}
        following = 0
        for key, value in namespace.items():
            if not isinstance(value, _Declared):
                continue
            same = next((other for other in fields if namespace[other] is value), None)
            if same is not None:  # another name of a word
                numbers[key] = numbers[same]
                continue
            first = following if value.line < 0 else value.line * LINE_WORDS
            if first < following:
                raise TypeError(f"{name}.{key} is after the beginning of its line")
            fields[key] = Word(
                key, first, value.count, value.unit, value.writer or writer, value.meaning, value.metric
            )
            numbers[key] = first
            following = first + value.count
        if words and following > words:
            raise TypeError(f"{name} has {following} words, not {words}")
        size = words or following
        extra = {
            "__words__": fields,
            "writer": writer,
            "shared": shared,
            "WORDS": size,
            "STRIDE": size * WORD_BYTES,
        }
        return super().__new__(cls, name, bases, namespace | numbers | extra)

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **_: object) -> None:
        super().__init__(name, bases, namespace)

    def __iter__(cls) -> Iterator[Word]:
        return iter(cls.__words__.values())

    def field_at(cls, number: int) -> Word | None:
        """The field that a word of a row belongs to."""
        return next((one for one in cls if one.number <= number < one.number + one.count), None)

    def table(cls, rows: int, *, writer: str = "") -> NDArray[np.int64]:
        """`rows` rows of zeros: ``table[number, Class.FIELD]`` is a word. writer: the owner of a
        private copy."""
        return cls.declared(np.zeros((rows, cls.WORDS), np.int64), writer)

    def row(cls, *, writer: str = "") -> NDArray[np.int64]:
        """One row of zeros: ``row[Class.FIELD]`` is a word."""
        return cls.declared(np.zeros(cls.WORDS, np.int64), writer)

    def declared(cls, array: NDArray[np.int64], writer: str = "") -> NDArray[np.int64]:
        """The array, as rows of this class: plain kernels check who writes to them."""
        if plain.ACTIVE:
            from kbroker.kernels.plain.tables import declare

            return declare(cls, array, writer)
        return array


class Row(metaclass=RowType):
    """A row of words."""


class _Field(msgspec.Struct, frozen=True):
    kind: str
    unit: str
    meaning: str


KINDS = {"int32": "i", "int64": "q"}


def field(kind: str, unit: str, meaning: str) -> int:
    """Declare the next field of a struct. kind: int32 or int64, in native byte order, aligned."""
    return cast(int, _Field(kind, unit, meaning))


class StructType(Constants):
    """Computes the offsets of a struct's fields. The class keeps their byte offsets, and SIZE."""

    __words__: Mapping[str, Word]
    writer: str
    shared: str
    SIZE: int
    FORMAT: str

    def __new__(
        cls,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        writer: str = "",
        shared: str = "",
    ) -> "StructType":
        """writer, shared: as of a RowType."""
        fields: dict[str, Word] = {}
        numbers: dict[str, int] = {}
        layout = "<"
        for key, value in namespace.items():
            if not isinstance(value, _Field):
                continue
            same = next((other for other in fields if namespace[other] is value), None)
            if same is not None:
                numbers[key] = numbers[same]
                continue
            numbers[key] = struct.calcsize(layout)
            layout += KINDS[value.kind]
            size = struct.calcsize(layout) - numbers[key]
            fields[key] = Word(key, numbers[key], size, value.unit, writer, value.meaning)
        size = struct.calcsize(layout)
        extra = {"__words__": fields, "writer": writer, "shared": shared, "SIZE": size, "FORMAT": layout}
        return super().__new__(cls, name, bases, namespace | numbers | extra)

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **_: object) -> None:
        super().__init__(name, bases, namespace)

    def __iter__(cls) -> Iterator[Word]:
        return iter(cls.__words__.values())


class Struct(metaclass=StructType):
    """Fields of several widths. A field's class attribute is its byte offset."""


class Values(metaclass=Constants):
    """Numbers that a word can hold, or limits that belong together."""

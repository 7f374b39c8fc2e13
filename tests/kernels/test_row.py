"""Rows of words: numbers come from the order of declaration."""

import struct

import numpy as np
import pytest

from kbroker.kernels import jit
from kbroker.kernels.row import LINE_WORDS, Row, RowType, Struct, Values, field, word


class Inner(Row, writer="network"):
    LEFT = word("count", "left")
    RIGHT = word("count", "right")


class Outer(Row, writer="network", words=24):
    MOST = 7

    FIRST = word("count", "first")
    INNER = word(Inner, "a row in the row")
    MANY = word("count", "three of them", count=3)
    CONTROLS = word("flag", "of another writer", writer="control", line=1)


class State(Values):
    BUSY = 4


@jit.kernel("int64(int64[::1])")
def _from_kernel(row: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> int:
    return row[Outer.CONTROLS] * State.BUSY + Outer.STRIDE + Outer.MOST


class Head(Struct, writer="control"):
    LENGTH = field("int64", "bytes", "length")
    KIND = field("int32", "value", "kind")
    STATUS = KIND
    CODE = field("int32", "error code", "code")


def test_words_are_numbered_in_the_order_of_declaration() -> None:
    assert (Outer.FIRST, Outer.INNER, Outer.MANY, Outer.CONTROLS) == (0, 1, 3, LINE_WORDS)
    assert (Outer.WORDS, Outer.STRIDE) == (24, 192)
    assert Inner.WORDS == 2


def test_a_field_knows_its_unit_writer_and_meaning() -> None:
    fields = {field.name: field for field in Outer}
    assert fields["INNER"].unit == "Inner"
    assert fields["FIRST"].writer == "network"
    assert fields["CONTROLS"].writer == "control"
    assert "MOST" not in fields


def test_a_kernel_takes_words_and_limits_as_constants() -> None:
    row = Outer.table(1)[0]
    row[Outer.CONTROLS] = 3
    assert _from_kernel(row) == 3 * 4 + 192 + 7


def test_more_words_than_a_row_has_are_refused() -> None:
    with pytest.raises(TypeError, match="3 words, not 2"):
        RowType("Small", (Row,), {"A": word("count", "a", count=3)}, words=2)


def test_a_line_that_has_begun_is_refused() -> None:
    with pytest.raises(TypeError, match="beginning of its line"):
        RowType("Late", (Row,), {"A": word("count", "a", count=9), "B": word("count", "b", line=1)})


def test_fields_of_a_struct_are_contiguous() -> None:
    assert (Head.LENGTH, Head.KIND, Head.STATUS, Head.CODE, Head.SIZE) == (0, 8, 8, 12, 16)
    assert struct.unpack_from(Head.FORMAT, struct.pack("<qii", 1, 2, 3)) == (1, 2, 3)
    assert [one.name for one in Head] == ["LENGTH", "KIND", "CODE"]

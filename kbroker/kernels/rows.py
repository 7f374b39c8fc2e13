"""Words of int64 rows by address: tables that kernels share with each other and with Python, see
the layouts.

Free rows of a table are a list, linked by one of their words, which holds how far the next free row
is from the row after this one. So a table of zeros is a list of all its rows in order, and rows
that were never used take no memory.
"""

# mypy: disable-error-code="no-untyped-def,type-arg"

from typing import Any

from kbroker.kernels.jit import inlined, intrinsic, ir, types
from kbroker.kernels.memory import load_i64, store_i64
from kbroker.kernels.plain import memory as twins


def _word(builder: Any, row: Any, word: Any) -> Any:
    offset = builder.mul(word, ir.Constant(ir.IntType(64), 8))
    return builder.inttoptr(builder.add(row, offset), ir.PointerType(ir.IntType(64)))


# Half of all calls in kernels are these two; as functions they take longer to compile.
@intrinsic(twins.get)
def get(typingctx, row, word):
    """Word of a row."""

    def codegen(context, builder, signature, args):
        return builder.load(_word(builder, args[0], args[1]), align=1, typ=ir.IntType(64))

    return types.int64(types.int64, types.int64), codegen


@intrinsic(twins.put)
def put(typingctx, row, word, value):
    """Set a word of a row."""

    def codegen(context, builder, signature, args):
        builder.store(args[2], _word(builder, args[0], args[1]), align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@inlined
def next_free(row: int, link: int, number: int) -> int:
    """Number of the free row after a free row, -1 after the last."""
    return number + 1 + load_i64(row + 8 * link)


@inlined
def link_free(row: int, link: int, number: int, following: int) -> None:
    """Put a row before the free row ``following`` (-1: there is none)."""
    store_i64(row + 8 * link, following - number - 1)

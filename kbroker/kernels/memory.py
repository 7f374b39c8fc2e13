"""Raw memory and atomics for kernels, addressed by plain 64-bit integers.

Shared memory is mapped before the first fork, so an address means the same thing in every process.
Atomics come from LLVM with named orderings, so they are right on both x86-64 and ARM.
"""
# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,type-arg"

from typing import Any

from kbroker.kernels.jit import cgutils, intrinsic, ir, types
from kbroker.kernels.plain import memory as twins

INT32_MAX = (1 << 31) - 1
INT64_MAX = (1 << 63) - 1


def _pointer(builder: Any, address: Any, bits: int) -> Any:
    return builder.inttoptr(address, ir.PointerType(ir.IntType(bits)))


def _load(bits: int, signed: bool, swap: bool):
    @intrinsic(twins.load(bits, signed, swap))
    def load(typingctx, address):
        def codegen(context, builder, signature, args):
            value = builder.load(_pointer(builder, args[0], bits), align=1, typ=ir.IntType(bits))
            if swap:
                value = builder.bswap(value)
            if bits == 64:
                return value
            word = ir.IntType(64)
            return builder.sext(value, word) if signed else builder.zext(value, word)

        return types.int64(types.int64), codegen

    return load


def _store(bits: int, swap: bool):
    @intrinsic(twins.store(bits, swap))
    def store(typingctx, address, value):
        def codegen(context, builder, signature, args):
            word = args[1] if bits == 64 else builder.trunc(args[1], ir.IntType(bits))
            if swap:
                word = builder.bswap(word)
            builder.store(word, _pointer(builder, args[0], bits), align=1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), codegen

    return store


# Loads and stores of one machine word at any alignment; *_be are in network byte order.
load_u8 = _load(8, False, False)
load_i8 = _load(8, True, False)
load_i16_be = _load(16, True, True)
load_i32_be = _load(32, True, True)
load_u32_be = _load(32, False, True)
load_i64_be = _load(64, True, True)
load_i32 = _load(32, True, False)
load_i64 = _load(64, True, False)
store_u8 = _store(8, False)
store_i16_be = _store(16, True)
store_i32_be = _store(32, True)
store_i64_be = _store(64, True)
store_i32 = _store(32, False)
store_i64 = _store(64, False)


@intrinsic(twins.wrapped)
def wrapped(typingctx, value):
    """The int64 that machine arithmetic leaves of a number; it changes only numbers of plain
    Python."""

    def codegen(context, builder, signature, args):
        return args[0]

    return types.int64(types.int64), codegen


@intrinsic(twins.unsigned)
def unsigned(typingctx, value):
    """The 64 bits as a uint64, for arithmetic that shifts zeros in."""

    def codegen(context, builder, signature, args):
        return args[0]

    return types.uint64(types.int64), codegen


@intrinsic(twins.wrapped)
def signed(typingctx, value):
    """The 64 bits of a uint64 as an int64."""

    def codegen(context, builder, signature, args):
        return args[0]

    return types.int64(types.uint64), codegen


@intrinsic(twins.load_acquire)
def load_acquire(typingctx, address):
    """int64 at an 8-aligned address; later reads see what its writer wrote before."""

    def codegen(context, builder, signature, args):
        return builder.load_atomic(_pointer(builder, args[0], 64), "acquire", 8, typ=ir.IntType(64))

    return types.int64(types.int64), codegen


@intrinsic(twins.store_release)
def store_release(typingctx, address, value):
    """Publish an int64 at an 8-aligned address after everything written before it."""

    def codegen(context, builder, signature, args):
        builder.store_atomic(args[1], _pointer(builder, args[0], 64), "release", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


def _read_modify_write(operation: str):
    @intrinsic(twins.read_modify_write(operation))
    def modify(typingctx, address, value):
        def codegen(context, builder, signature, args):
            return builder.atomic_rmw(operation, _pointer(builder, args[0], 64), args[1], "seq_cst")

        return types.int64(types.int64, types.int64), codegen

    return modify


# Each returns the value before the change; sequentially consistent.
fetch_add = _read_modify_write("add")
fetch_or = _read_modify_write("or")
exchange = _read_modify_write("xchg")


@intrinsic(twins.fence)
def fence(typingctx):
    """Full barrier: needed between "publish" and "is the other side asleep?"."""

    def codegen(context, builder, signature, args):
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic(twins.copy)
def copy(typingctx, destination, source, length):
    """memcpy of ``length`` bytes between addresses that do not overlap."""

    def codegen(context, builder, signature, args):
        cgutils.raw_memcpy(builder, _pointer(builder, args[0], 8), _pointer(builder, args[1], 8), args[2], 1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen

"""zlib and zstd for kernels: their C functions, called without the interpreter.

A library that is not found, or does not show its functions, has address 0; its data is then left to
Python. So is damaged data, and data that is not plainly one gzip member or one zstd frame.
"""
# mypy: disable-error-code="no-untyped-def,type-arg"

import ctypes
import zlib
from importlib.util import find_spec
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kbroker.kernels.jit import inlined, intrinsic, ir, types
from kbroker.kernels.memory import load_i32, load_i64, load_u8, store_i32, store_i64
from kbroker.kernels.plain.libc import call_pointer
from kbroker.kernels.rows import get

# words of the table
ZSTD_DECOMPRESS = 0  # address of ZSTD_decompressDCtx
ZSTD_FRAME_BYTES = 1  # address of ZSTD_findFrameCompressedSize
ZSTD_CONTEXT = 2
INFLATE = 3  # address of inflate
INFLATE_RESET = 4  # address of inflateReset2
INFLATE_STREAM = 5  # address of a z_stream
TABLE_WORDS = 6

# z_stream of zlib.h on 64 bits: offsets of its fields
NEXT_IN = 0
AVAIL_IN = 8
NEXT_OUT = 24
AVAIL_OUT = 32
TOTAL_OUT = 40
STREAM_BYTES = 112
Z_OK = 0
Z_STREAM_END = 1
Z_FINISH = 4
GZIP_WINDOW_BITS = 31  # the gzip container alone

ZSTD_MAGIC = 0xFD2FB528 - (1 << 32)  # as a signed word
ZSTD_DESCRIPTOR = 4
ZSTD_WINDOW = 5
ZSTD_SINGLE_SEGMENT = 0x20
ZSTD_MAX_WINDOW = 17  # exponent above 10: 2^27 bytes, the most that zstd's readers take by default


class CodecLibraries:
    """The table that kernels take (`address`), and the objects it points to. For one thread,
    because its contexts are changed by use."""

    def __init__(self) -> None:
        self.words: Final[NDArray[np.int64]] = np.zeros(TABLE_WORDS, np.int64)
        self.address: Final = int(self.words.ctypes.data)
        self._stream: Final[NDArray[np.uint8]] = np.zeros(STREAM_BYTES, np.uint8)
        self._find_zstd()
        self._find_zlib()

    def _find_zstd(self) -> None:
        # this build of zstandard's extension exports zstd's own functions
        spec = find_spec("zstandard._cffi")
        if spec is None or spec.origin is None:
            return
        try:
            library = ctypes.CDLL(spec.origin)
            library.ZSTD_createDCtx.restype = ctypes.c_void_p
            found = _address(library.ZSTD_decompressDCtx), _address(library.ZSTD_findFrameCompressedSize)
            context = library.ZSTD_createDCtx()
        except (OSError, AttributeError):
            return
        if context:
            self.words[[ZSTD_DECOMPRESS, ZSTD_FRAME_BYTES, ZSTD_CONTEXT]] = *found, context

    def _find_zlib(self) -> None:
        try:
            # without a file zlib is built into the interpreter, which exports its functions
            library = ctypes.CDLL(getattr(zlib, "__file__", None))
            found = _address(library.inflate), _address(library.inflateReset2)
            stream = int(self._stream.ctypes.data)
            version = zlib.ZLIB_VERSION.encode()
            made = library.inflateInit2_(ctypes.c_void_p(stream), GZIP_WINDOW_BITS, version, STREAM_BYTES)
        except (OSError, AttributeError):
            return
        if made == Z_OK:
            self.words[[INFLATE, INFLATE_RESET, INFLATE_STREAM]] = *found, stream


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _caller(builder: Any, arguments: Any, bits: tuple[int, ...], result: int) -> Any:
    """Code that calls the function at arguments[0]; bits: of its parameters, each given as
    int64."""
    kind = ir.FunctionType(ir.IntType(result), [ir.IntType(width) for width in bits])
    given = [
        builder.trunc(argument, ir.IntType(width)) if width < 64 else argument
        for argument, width in zip(arguments[1:], bits, strict=True)
    ]
    value = builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), given)
    return builder.sext(value, ir.IntType(64)) if result < 64 else value


@intrinsic(call_pointer("int32", ("int64", "int32")))
def _call_stream(typingctx, function, stream, flag):
    """int function(z_stream *, int)."""

    def codegen(context, builder, signature, args):
        return _caller(builder, args, (64, 32), 32)

    return types.int64(types.int64, types.int64, types.int64), codegen


@intrinsic(call_pointer("int64", ("int64", "int64")))
def _call_frame(typingctx, function, source, size):
    """size_t function(const void *, size_t); an error is negative."""

    def codegen(context, builder, signature, args):
        return _caller(builder, args, (64, 64), 64)

    return types.int64(types.int64, types.int64, types.int64), codegen


@intrinsic(call_pointer("int64", ("int64",) * 5))
def _call_decompress(typingctx, function, context, target, room, source, size):
    """size_t function(ZSTD_DCtx *, void *, size_t, const void *, size_t); an error is negative."""

    def codegen(codegen_context, builder, signature, args):
        return _caller(builder, args, (64, 64, 64, 64, 64), 64)

    return types.int64(*(types.int64,) * 6), codegen


@inlined
def zstd_frame(libraries: int, source: int, size: int, target: int, room: int) -> int:
    """Decompress exactly one frame; bytes written, or -1. libraries: address of the table."""
    function = get(libraries, ZSTD_DECOMPRESS)
    if function == 0 or size <= ZSTD_WINDOW or load_i32(source) != ZSTD_MAGIC:
        return -1
    if load_u8(source + ZSTD_DESCRIPTOR) & ZSTD_SINGLE_SEGMENT == 0:
        if load_u8(source + ZSTD_WINDOW) >> 3 > ZSTD_MAX_WINDOW:
            return -1
    if _call_frame(get(libraries, ZSTD_FRAME_BYTES), source, size) != size:
        return -1
    found = _call_decompress(function, get(libraries, ZSTD_CONTEXT), target, room, source, size)
    return found if found >= 0 else -1


@inlined
def gzip_member(libraries: int, source: int, size: int, target: int, room: int) -> int:
    """Decompress exactly one member; bytes written, or -1. libraries: address of the table."""
    function = get(libraries, INFLATE)
    if function == 0:
        return -1
    stream = get(libraries, INFLATE_STREAM)
    if _call_stream(get(libraries, INFLATE_RESET), stream, GZIP_WINDOW_BITS) != Z_OK:
        return -1
    store_i64(stream + NEXT_IN, source)
    store_i32(stream + AVAIL_IN, size)
    store_i64(stream + NEXT_OUT, target)
    store_i32(stream + AVAIL_OUT, room)
    if _call_stream(function, stream, Z_FINISH) != Z_STREAM_END or load_i32(stream + AVAIL_IN) != 0:
        return -1
    return load_i64(stream + TOTAL_OUT)

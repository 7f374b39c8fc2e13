"""CRC-32C (Castagnoli) of record batches, RFC 3720 appendix B.4: hardware instruction or tables.

The CPU's crc32 instruction has a latency of three cycles and a throughput of one, so long inputs
run as three interleaved streams whose results are joined by a multiplication in GF(2): appending n
zero bytes to a message is a linear map of its CRC, kept as four tables of 256 words per length.
"""
# mypy: disable-error-code="no-untyped-def,misc"

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbroker.kernels.jit import cgutils, compiled_in, cpu_has, inlined, intrinsic, ir, kernel, types
from kbroker.kernels.memory import load_i64, load_u8

POLYNOMIAL = 0x82F63B78
LONG_STREAM = 4096
SHORT_STREAM = 256
X86 = cpu_has("sse4.2")
ARM = cpu_has("crc")


def _byte_tables() -> NDArray[np.int64]:
    """Slicing-by-8 tables: ``tables[k][b]`` is the CRC of byte b followed by k zero bytes."""
    tables = np.zeros((8, 256), np.int64)
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (POLYNOMIAL if crc & 1 else 0)
        tables[0, byte] = crc
    for k in range(1, 8):
        previous = tables[k - 1]
        tables[k] = (previous >> 8) ^ tables[0][previous & 0xFF]
    return tables


BYTE_TABLES = compiled_in(_byte_tables)


def _apply(columns: list[int], vector: int) -> int:
    """A linear map of GF(2)^32, given by the images of the 32 bits, applied to a vector."""
    image = 0
    for column in columns:
        if vector & 1:
            image ^= column
        vector >>= 1
    return image


def _zeros_tables(length: int) -> NDArray[np.int64]:
    """``tables[i][b]``: what byte b at position i of a CRC becomes after ``length`` (a power of
    two) zero bytes."""
    columns = [(bit >> 8) ^ int(BYTE_TABLES[0, bit & 0xFF]) for bit in (1 << n for n in range(32))]
    for _ in range(length.bit_length() - 1):
        columns = [_apply(columns, column) for column in columns]
    tables = np.zeros((4, 256), np.int64)
    for position in range(4):
        for bit in range(8):
            with_bit = (np.arange(256) >> bit & 1).astype(bool)
            tables[position, with_bit] ^= columns[position * 8 + bit]
    return tables


LONG_ZEROS = compiled_in(lambda: _zeros_tables(LONG_STREAM))
SHORT_ZEROS = compiled_in(lambda: _zeros_tables(SHORT_STREAM))


def _step_in_software(bits: int) -> Callable[[int, int], int]:
    """The result of the instruction, for plain kernels."""
    table: list[int] = BYTE_TABLES[0].tolist()

    def step(crc: int, data: int) -> int:
        crc = int(crc)
        for byte in (int(data) & ((1 << bits) - 1)).to_bytes(bits // 8, "little"):
            crc = (crc >> 8) ^ table[(crc ^ byte) & 0xFF]
        return crc

    return step


def _instruction(bits: int):
    @intrinsic(_step_in_software(bits))
    def step(typingctx, crc, data):
        def codegen(context, builder, signature, args):
            word = ir.IntType(64)
            data_type = ir.IntType(bits)
            data_value = args[1] if bits == 64 else builder.trunc(args[1], ir.IntType(8))
            if X86:
                crc_type = word if bits == 64 else ir.IntType(32)
                name = "llvm.x86.sse42.crc32.64.64" if bits == 64 else "llvm.x86.sse42.crc32.32.8"
            else:
                crc_type = ir.IntType(32)
                name = "llvm.aarch64.crc32cx" if bits == 64 else "llvm.aarch64.crc32cb"
                if bits == 8:
                    data_type = ir.IntType(32)
                    data_value = builder.zext(data_value, data_type)
            signature_ = ir.FunctionType(crc_type, [crc_type, data_type])
            function: Any = cgutils.get_or_insert_function(builder.module, signature_, name)
            start = args[0] if crc_type == word else builder.trunc(args[0], crc_type)
            result = builder.call(function, [start, data_value])
            return result if crc_type == word else builder.zext(result, word)

        return types.int64(types.int64, types.int64), codegen

    return step


if X86 or ARM:
    _step_8 = _instruction(64)
    _step_1 = _instruction(8)

    @inlined
    def _shift(tables: Any, crc: int) -> int:
        return (
            tables[0, crc & 0xFF]
            ^ tables[1, (crc >> 8) & 0xFF]
            ^ tables[2, (crc >> 16) & 0xFF]
            ^ tables[3, (crc >> 24) & 0xFF]
        )

    @inlined
    def _extend(crc: int, address: int, length: int) -> int:
        while length >= 3 * LONG_STREAM:
            first, second, third = crc, 0, 0
            for i in range(0, LONG_STREAM, 8):
                first = _step_8(first, load_i64(address + i))
                second = _step_8(second, load_i64(address + LONG_STREAM + i))
                third = _step_8(third, load_i64(address + 2 * LONG_STREAM + i))
            crc = _shift(LONG_ZEROS, _shift(LONG_ZEROS, first) ^ second) ^ third
            address += 3 * LONG_STREAM
            length -= 3 * LONG_STREAM
        while length >= 3 * SHORT_STREAM:
            first, second, third = crc, 0, 0
            for i in range(0, SHORT_STREAM, 8):
                first = _step_8(first, load_i64(address + i))
                second = _step_8(second, load_i64(address + SHORT_STREAM + i))
                third = _step_8(third, load_i64(address + 2 * SHORT_STREAM + i))
            crc = _shift(SHORT_ZEROS, _shift(SHORT_ZEROS, first) ^ second) ^ third
            address += 3 * SHORT_STREAM
            length -= 3 * SHORT_STREAM
        while length >= 8:
            crc = _step_8(crc, load_i64(address))
            address += 8
            length -= 8
        while length > 0:
            crc = _step_1(crc, load_u8(address))
            address += 1
            length -= 1
        return crc

else:

    @inlined
    def _extend(crc: int, address: int, length: int) -> int:
        while length >= 8:
            word = load_i64(address) ^ crc
            crc = (
                BYTE_TABLES[7, word & 0xFF]
                ^ BYTE_TABLES[6, (word >> 8) & 0xFF]
                ^ BYTE_TABLES[5, (word >> 16) & 0xFF]
                ^ BYTE_TABLES[4, (word >> 24) & 0xFF]
                ^ BYTE_TABLES[3, (word >> 32) & 0xFF]
                ^ BYTE_TABLES[2, (word >> 40) & 0xFF]
                ^ BYTE_TABLES[1, (word >> 48) & 0xFF]
                ^ BYTE_TABLES[0, (word >> 56) & 0xFF]
            )
            address += 8
            length -= 8
        while length > 0:
            crc = (crc >> 8) ^ BYTE_TABLES[0, (crc ^ load_u8(address)) & 0xFF]
            address += 1
            length -= 1
        return crc


@inlined
def crc32c_at(address: int, length: int) -> int:
    """CRC-32C, 0..2^32-1, of ``length`` bytes at a raw address; for use inside kernels."""
    return _extend(0xFFFFFFFF, address, length) ^ 0xFFFFFFFF


@kernel("int64(int64, int64)")
def crc32c_of(address: int, length: int) -> int:
    """CRC-32C of raw memory, called from Python."""
    return crc32c_at(address, length)


def crc32c(buffer: bytes | bytearray | memoryview) -> int:
    """CRC-32C of a contiguous buffer."""
    view = np.frombuffer(buffer, np.uint8)
    return int(crc32c_of(view.ctypes.data, view.size)) if view.size else 0

"""Words of int64 rows by address: tables that kernels share with each other and with Python, see the layouts."""

from kbroker.kernels.jit import inlined
from kbroker.kernels.memory import load_i64, store_i64


@inlined
def get(row: int, word: int) -> int:
    """Word of a row."""
    return load_i64(row + 8 * word)


@inlined
def put(row: int, word: int, value: int) -> None:
    """Set a word of a row."""
    store_i64(row + 8 * word, value)

"""The plain form of a kernel: its function, called with arguments of its signature's types."""

import functools
import operator
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from kbroker.kernels.plain.memory import wrapped
from kbroker.kernels.plain.memory_map import KERNELS
from kbroker.kernels.plain.numpy_memory import note

WORD_MIN, WORD_MAX = -(1 << 63), (1 << 63) - 1
ARRAY = re.compile(r"(\w+)\[(.*)\]")
SPLIT = re.compile(r",\s*(?![^\[]*\])")  # the commas outside of brackets


def _number(value: Any) -> int:
    number = operator.index(value)
    if not WORD_MIN <= number <= WORD_MAX:
        raise OverflowError(f"{number} is not an int64")
    return number


def _array(kind: str, dimensions: int) -> Callable[[Any], Any]:
    dtype = np.dtype(kind)

    def take(value: Any) -> Any:
        if not isinstance(value, np.ndarray) or value.dtype != dtype or value.ndim != dimensions:
            raise TypeError(f"not an array of {kind} with {dimensions} dimensions: a {type(value).__name__}")
        if not value.flags.c_contiguous:
            raise TypeError("not a contiguous array")
        note(value)
        return value

    return take


def _argument(kind: str) -> Callable[[Any], Any]:
    """A converter of an argument to its type; it raises TypeError or OverflowError."""
    if found := ARRAY.fullmatch(kind):
        return _array(found[1], found[2].count(":") - 1)
    return bool if kind == "boolean" else {"int64": _number}[kind]


def _result(kind: str) -> Callable[[Any], Any]:
    if kind.startswith("UniTuple"):
        return lambda values: tuple(wrapped(one) for one in values)
    return {"void": lambda _: None, "int64": wrapped, "boolean": bool}[kind]


def plain(function: Callable[..., Any], signature: str) -> Callable[..., Any]:
    """The function that Python calls in place of a compiled kernel."""
    kind, listed = signature.rstrip(")").rsplit("(", 1)
    arguments = [_argument(one) for one in SPLIT.split(listed) if one]
    result = _result(kind)
    KERNELS[function.__code__] = f"{function.__module__}.{function.__qualname__}"

    @functools.wraps(function)
    def call(*given: Any) -> Any:
        if len(given) != len(arguments):
            raise TypeError(f"{function.__qualname__} takes {len(arguments)} arguments, not {len(given)}")
        taken = [take(value) for take, value in zip(arguments, given, strict=True)]
        with np.errstate(all="ignore"):  # numbers of arrays overflow as those of machine code do
            return result(function(*taken))

    return call

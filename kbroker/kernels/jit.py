"""The one door to numba: a typed decorator, the on-disk cache of compiled kernels, and CPU facts."""

import os
from collections.abc import Callable
from typing import Any, TypeVar, cast

from kbroker.kernels.cache import cache_folder

F = TypeVar("F", bound=Callable[..., Any])

os.environ.setdefault("NUMBA_CACHE_DIR", str(cache_folder()))

import numba  # noqa: E402  the cache folder must be named before numba reads it
from llvmlite import binding as llvm  # noqa: E402

numba.config.CACHE_DIR = os.environ[
    "NUMBA_CACHE_DIR"
]  # for when another module imported numba before this one


def kernel(signature: str) -> Callable[[F], F]:
    """Compile for exactly this signature, when the module is imported, through the on-disk cache.

    For functions that Python calls: the signature is a contract, and a wrong argument is an error
    instead of a second, silently slower compilation.
    """

    def decorate(function: F) -> F:
        return cast(F, numba.njit(signature, cache=True, nogil=True, error_model="numpy")(function))

    return decorate


def inlined(function: F) -> F:
    """Compile as part of the kernels that call it; never called from Python."""
    return cast(F, numba.njit(inline="never", nogil=True, error_model="numpy")(function))


def cpu_has(feature: str) -> bool:
    """Whether this processor has an LLVM feature name such as ``sse4.2`` or ``crc``."""
    return bool(llvm.get_host_cpu_features().get(feature, False))

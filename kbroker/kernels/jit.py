"""The only module that uses numba: typed decorators, the on-disk cache of compiled kernels, and CPU
facts.

In a process that uses the image of compiled kernels (`image.py`) numba stays outside: `kernel`
finds the machine code there, and functions that only describe code to a compiler (`intrinsic`,
`external`, `types`, `cgutils`, `ir`) do nothing. With KBROKER_NO_KERNELS=1 numba stays outside,
too: every kernel is the Python function that its source says (`plain`).
"""

import os
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from kbroker.kernels import image, plain
from kbroker.kernels.cache import cache_folder
from kbroker.kernels.row import Constants

F = TypeVar("F", bound=Callable[..., Any])

IMAGE = image.in_use()
PLAIN = plain.ACTIVE

numba: Any = None
types: Any = None
cgutils: Any = None
ir: Any = None

if PLAIN:
    import_module("kbroker.kernels.plain.numpy_memory").watch()
elif IMAGE is None:
    os.environ.setdefault("NUMBA_CACHE_DIR", str(cache_folder()))  # numba reads it when it is imported
    numba = import_module("numba")
    numba.config.CACHE_DIR = os.environ["NUMBA_CACHE_DIR"]  # for when another module imported it before
    types = numba.types
    cgutils = import_module("numba.core.cgutils")
    ir = import_module("llvmlite.ir")
    compiler = import_module("kbroker.kernels.compiler")
    compiler.use_kernel_libraries()
    # a class of constants is to numba what a module is: a kernel compiles `Class.NAME` in as a
    # literal
    numba.extending.typeof_impl.register(Constants)(lambda value, _: numba.types.Module(value))

DECLARED: list[Any] = []
"""The kernels of this process that come from numba, as `compiler.Kernel`."""
declare_only = False
"""Set by `warm`, which compiles kernels after it has imported all of them."""


def kernel(signature: str) -> Callable[[F], F]:
    """Compile for exactly this signature, when the module is imported, through the on-disk cache.

    For functions that Python calls: the signature is a contract, and a wrong argument is an error
    instead of a second, silently slower compilation.
    """

    def decorate(function: F) -> F:
        if PLAIN:
            made = import_module("kbroker.kernels.plain.kernel").plain(function, signature)
        elif IMAGE is not None:
            made = IMAGE.function(function)
            if made is None:
                raise ImportError(
                    f"no kernel {function.__module__}.{function.__qualname__} in {image.path()}"
                )
        else:
            made = compiler.Kernel(function, signature)
            DECLARED.append(made)
            if not declare_only:
                made.make()
        return cast(F, made)

    return decorate


def inlined(function: F) -> F:
    """Compile as part of the kernels that call it; never called from Python."""
    if IMAGE is not None or PLAIN:
        return function
    return cast(F, compiler.Part(function))


def intrinsic(plain_function: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """numba.extending.intrinsic: LLVM code in place of calls of the function. plain_function: plain
    kernels call it instead."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        if PLAIN:
            return plain_function
        if IMAGE is not None:
            return function
        return cast(Callable[..., Any], import_module("numba.extending").intrinsic(function))

    return decorate


def external(name: str, result: str, *arguments: str) -> Any:
    """A C function of this process that kernels may call; types are numba's names, such as
    int64."""
    if PLAIN:
        return import_module("kbroker.kernels.plain.libc").external(name, result, arguments)
    if IMAGE is not None:
        return None
    signature = getattr(types, result)(*(getattr(types, argument) for argument in arguments))
    return types.ExternalFunction(name, signature)


def cpu_has(feature: str) -> bool:
    """Whether this processor has an LLVM feature name such as ``sse4.2`` or ``crc``. Only the
    compiler needs to know: False in a process that uses the image."""
    if IMAGE is not None:
        return False
    from llvmlite import binding as llvm  # 0.1 s, and not needed with an image

    return bool(llvm.get_host_cpu_features().get(feature, False))


def compiled_in(make: Callable[[], NDArray[np.int64]]) -> NDArray[np.int64]:
    """A table that kernels hold as a constant. It is made where kernels are compiled or plain; in a
    process that uses the image it is empty."""
    return np.zeros(0, np.int64) if IMAGE is not None else make()

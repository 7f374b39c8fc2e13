"""The compilation of kernels by numba: an inlined function becomes machine code only as part of the
kernels that call it.

Left to itself numba gives every function wrappers for Python and C, optimises it with all that it
calls, and emits machine code for it, before it does the same for each function that calls it; for
the deepest ones that happens twenty times over, and once more for each constant they are called
with. Only the outermost function, the kernel, is ever called. So an inlined function stays LLVM
code (a `Part`), for types and not for constants, and a kernel's library links all parts at once and
is optimised once.
"""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numba
from llvmlite import binding as llvm
from numba.core import dispatcher, sigutils, typeinfer
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher, cpu_target
from numba.core.types.misc import unliteral

from kbroker.kernels import frontend
from kbroker.kernels.exchange import Exchange, plain
from kbroker.kernels.frontend import KernelCompiler

OPTIONS = {"nopython": True, "nogil": True, "error_model": "numpy"}


class KernelLibrary(JITCodeLibrary):  # type: ignore[misc]
    """The code of one function, which links the functions that it calls only when machine code is
    needed."""

    _linking_libraries: list[Any]

    def add_linking_library(self, library: Any) -> None:
        self._linking_libraries.append(library)

    def add_llvm_module(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout
        self._final_module.link_in(module)

    def finalize(self) -> None:
        """Link all functions that are called, directly or not; then, as numba does, optimise the
        code and pass it to the linker."""
        for library in self._called():
            self._final_module.link_in(_for_linking(library), preserve=True)
            self._reload_init.update(library._reload_init)
        self._linking_libraries = []
        super().finalize()

    def _called(self) -> list[Any]:
        found: dict[Any, None] = {}
        left = list(self._linking_libraries)
        while left:
            library = left.pop()
            if library in found or library is self:
                continue
            found[library] = None
            if not library._finalized:
                left += library._linking_libraries
        return list(found)


def _for_linking(library: Any) -> Any:
    """A module that may be linked into several others; a finalized one contains the functions that
    it calls."""
    if library._finalized:
        return library._get_module_for_linking()
    if library._shared_module is None:
        library._shared_module = _shared(library._final_module)
    return library._shared_module


def _shared(module: Any) -> Any:
    copy = module.clone()
    for function in copy.functions:
        if not function.is_declaration and function.linkage == llvm.Linkage.external:
            function.linkage = "linkonce_odr"
    return copy


class _PartCompiler(dispatcher._FunctionCompiler):  # type: ignore[misc, name-defined]
    """Stops before machine code."""

    def _customize_flags(self, flags: Any) -> Any:
        flags.no_compile = True
        flags.no_cpython_wrapper = True
        flags.no_cfunc_wrapper = True
        return flags


class Part(dispatcher.Dispatcher):
    """A function that is linked into kernels. A call from Python (of a test) compiles it as a
    kernel of its own."""

    targetdescr = cpu_target
    compiled: Callable[[], object] = staticmethod(lambda: None)
    """Called after each part, to show progress."""
    exchange: Exchange | None = None
    """The exchange that this process takes parts from and gives them to."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function, {}, OPTIONS)
        self._compiler: Any = _PartCompiler(function, self.targetdescr, OPTIONS, {}, KernelCompiler)
        self._alone: Any = None

    def add_overload(self, result: Any) -> None:
        key = object()  # what numba finds the code by, in place of a callable
        self.targetctx.insert_user_function(key, result.fndesc, [result.library])
        self.overloads[tuple(result.signature.args)] = result._replace(entry_point=key)

    def compile(self, signature: Any) -> Any:
        """Compile as numba does, without its timers, or take what another process has compiled."""
        arguments, _ = sigutils.normalize_signature(signature)
        if (known := self.overloads.get(tuple(arguments))) is not None:
            return known.entry_point
        exchange = Part.exchange
        name = f"{self.py_func.__module__}.{self.py_func.__qualname__}{arguments}"
        with global_compiler_lock, self._compiling_counter:
            if exchange is None or "<locals>" in name or not all(plain(one) for one in arguments):
                found = self._compiled(arguments)
            else:
                with exchange.claimed(name):
                    found = exchange.received(name, arguments)
                    if found is None:
                        found = self._compiled(arguments)
                        exchange.send(name, found, _for_linking)
            self.add_overload(found)
        return self.overloads[tuple(arguments)].entry_point

    def _compiled(self, arguments: Any) -> Any:
        found = self._compiler.compile(arguments, None)
        Part.compiled()
        return found

    def get_call_template(self, arguments: Any, named: Any) -> Any:
        """The template that numba finds, for the types of constants instead of the constants."""
        plain = tuple(unliteral(one) for one in arguments)
        return super().get_call_template(plain, {name: unliteral(one) for name, one in named.items()})

    def _compile_for_args(self, *arguments: Any, **named: Any) -> Any:
        if self._alone is None:
            self._alone = numba.jit(**OPTIONS)(self.py_func)
        return self._alone._compile_for_args(*arguments, **named)


class Kernel(CPUDispatcher):  # type: ignore[misc]
    """A function that Python calls, with one signature, kept in numba's cache on disk."""

    def __init__(self, function: Callable[..., Any], signature: str) -> None:
        super().__init__(function, {}, OPTIONS, pipeline_class=KernelCompiler)
        self.enable_caching()
        self.declared = signature

    def make(self) -> None:
        """Compile it, or load it from the cache. Once made, it accepts no other signature."""
        if self._can_compile:
            name = f"{self.py_func.__module__}.{self.py_func.__qualname__}"
            claim = Part.exchange.claimed(name) if Part.exchange else nullcontext()
            with claim, typeinfer.register_dispatcher(self):
                self.compile(self.declared)
            self.disable_compile()

    def get_call_template(self, arguments: Any, named: Any) -> Any:
        self.make()
        return super().get_call_template(arguments, named)


def use_kernel_libraries() -> None:
    """Let numba compile this process's functions as the module's docstring describes."""
    frontend.install()
    cpu_target.target_context.codegen()._library_class = KernelLibrary

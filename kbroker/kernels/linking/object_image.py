"""Kernels as the object files that numba made, which LLVM's linker loads: for processors and code
that `linker.py` does not know.

A file is MAGIC, the SHA-256 of what follows, the number of kernels, and of each kernel its five
fields; a field is its length (4 bytes, little-endian) and its bytes. What numba does for a function
that it takes from its cache is done here without numba: see
numba.core.cpu.CPUContext.get_executable.
"""

import ctypes
import hashlib
import platform
import struct
import sys
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from kbroker.kernels.linking.symbols import Symbols

MAGIC = b"kbroker kernels 2\n"
_LENGTH = struct.Struct("<I")
_DIGEST = hashlib.sha256
_CONTENT = len(MAGIC) + _DIGEST().digest_size


class CompiledKernel(Struct, frozen=True):
    """One kernel. code: a relocatable object file; wrapper: symbol of what Python calls;
    environment: symbol of the variable that must point to a numba Environment."""

    module: str
    name: str
    code: bytes
    wrapper: str
    environment: str


def packed(kernels: Iterable[CompiledKernel]) -> bytes:
    """An image file's content."""
    every = list(kernels)
    pieces = [_LENGTH.pack(len(every))]
    for one in every:
        for field in (one.module, one.name, one.code, one.wrapper, one.environment):
            content = field.encode() if isinstance(field, str) else field
            pieces += _LENGTH.pack(len(content)), content
    content = b"".join(pieces)
    return MAGIC + _DIGEST(content).digest() + content


def unpacked(image: bytes) -> list[CompiledKernel]:
    """The kernels of an image file. Raises ValueError for anything but a whole image."""
    if not image.startswith(MAGIC) or _DIGEST(image[_CONTENT:]).digest() != image[len(MAGIC) : _CONTENT]:
        raise ValueError("not an image of kernels, or a damaged one")
    fields: list[bytes] = []
    position = _CONTENT + _LENGTH.size
    while position < len(image):
        start = position + _LENGTH.size
        position = start + _number(image, position)
        if position > len(image):
            raise ValueError("a field of the image is longer than the image")
        fields.append(image[start:position])
    if len(fields) != 5 * _number(image, _CONTENT):
        raise ValueError("the image has another number of kernels than it says")
    return [
        CompiledKernel(module.decode(), name.decode(), code, wrapper.decode(), environment.decode())
        for module, name, code, wrapper, environment in zip(*[iter(fields)] * 5, strict=True)
    ]


def _number(image: bytes, position: int) -> int:
    if position + _LENGTH.size > len(image):
        raise ValueError("the image ends in a length")
    number: int = _LENGTH.unpack_from(image, position)[0]
    return number


class ObjectImage:
    """The kernels of a process, linked. Runs in: acceptor; its children inherit the code
    by forking."""

    def __init__(self, kernels: Iterable[CompiledKernel]) -> None:
        """Raises OSError, ImportError or RuntimeError when the code cannot be linked."""
        from llvmlite import binding as llvm

        symbols = Symbols()
        self._dynfunc = symbols.dynfunc
        for name, address in symbols.own.items():
            llvm.add_symbol(name, address)
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_default_triple().create_target_machine(
            jit=True, codemodel="jitdefault", reloc="static" if platform.machine() == "x86_64" else "default"
        )
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        self._kernels = {(one.module, one.name): one for one in kernels}
        for one in self._kernels.values():
            self._engine.add_object_file(llvm.ObjectFileRef.from_data(one.code))
        self._engine.finalize_object()
        for one in self._kernels.values():
            if not self._engine.get_function_address(one.wrapper):
                raise RuntimeError(f"the code of {one.module}.{one.name} has no {one.wrapper}")
            if not self._engine.get_global_value_address(one.environment):
                raise RuntimeError(f"the code of {one.module}.{one.name} has no {one.environment}")

    def function(self, source: Callable[..., Any]) -> Callable[..., Any] | None:
        """The compiled form of a function, None when the image has none. It accepts arguments of
        its signature; others raise TypeError or ValueError."""
        one = self._kernels.get((source.__module__, source.__qualname__))
        if one is None:
            return None
        environment = self._dynfunc.Environment(source.__globals__)
        variable = self._engine.get_global_value_address(one.environment)
        ctypes.c_void_p.from_address(variable).value = id(environment)
        made: Callable[..., Any] = self._dynfunc.make_function(
            sys.modules[one.module],
            one.name,
            source.__doc__ or "",
            self._engine.get_function_address(one.wrapper),
            environment,
            self._engine,  # kept alive by the function
        )
        return made

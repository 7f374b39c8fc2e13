"""All compiled kernels in one file, which the broker loads without numba: machine code needs no
compiler.

Importing numba and loading each cached kernel with it takes a third of a second and tens of
megabytes, in a process that compiles nothing. `kbroker.kernels.warm` therefore writes numba's own
results (object code and the names of the wrappers that Python calls) into an image beside numba's
cache. A process that says `use` before it imports the first kernel gets the functions from there;
every other one (tests, tools that compile kernels of their own) gets them from numba. What numba
does for a function that it takes from its cache is done here by the same parts of it, its three
extension modules: see numba.core.cpu.CPUContext.get_executable and
numba.core.base._load_global_helpers.

An image file is MAGIC, the SHA-256 of what follows, the number of kernels, and of each kernel its
five fields; a field is its length (4 bytes, little-endian) and its bytes. It is loaded only from a
file that no other user can write.
"""

import builtins
import ctypes
import hashlib
import importlib.util
import platform
import struct
import sys
import sysconfig
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

from kbroker.kernels import packaged, plain, trust
from kbroker.kernels.cache import cache_folder

MAGIC = b"kbroker kernels 2\n"
_LENGTH = struct.Struct("<I")
_DIGEST = hashlib.sha256
_CONTENT = len(MAGIC) + _DIGEST().digest_size


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """One kernel. code: a relocatable object file; wrapper: symbol of what Python calls;
    environment: symbol of the variable that must point to a numba Environment."""

    module: str
    name: str
    code: bytes
    wrapper: str
    environment: str


def path() -> Path:
    """The path of the image: beside numba's cache, by processor and interpreter."""
    from llvmlite import binding as llvm

    host = (
        platform.python_version(), sysconfig.get_platform(), version("llvmlite"), llvm.get_host_cpu_name(),
        sorted(llvm.get_host_cpu_features().items()),
    )  # fmt: skip
    return cache_folder() / f"image-{hashlib.sha256(repr(host).encode()).hexdigest()[:16]}"


def write(kernels: Iterable[CompiledKernel]) -> Path:
    """Write the image; the file is complete or does not exist. Raises OSError."""
    return trust.write(path(), packed(kernels))


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


class Image:
    """The kernels of a process, linked. Runs in: the broker's parent; its children inherit the code
    by forking."""

    def __init__(self, kernels: Iterable[CompiledKernel]) -> None:
        """Raises OSError, ImportError or RuntimeError when the code cannot be linked."""
        from llvmlite import binding as llvm

        self._dynfunc = _register_helpers(llvm)
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


def _register_helpers(llvm: Any) -> Any:
    """Register the functions that compiled wrappers call with the linker; numba's `_dynfunc`."""
    dynfunc, helpers = _extension("_dynfunc"), _extension("_helperlib")
    runtime = _extension("core/runtime/_nrt_python")
    llvm.add_symbol("_Py_NoneStruct", id(None))
    for name, address in (helpers.c_helpers | dynfunc.c_helpers).items():
        llvm.add_symbol(f"numba_{name}", address)
    for name, address in runtime.c_helpers.items():
        llvm.add_symbol(name if name.startswith("_") else f"NRT_{name}", address)
    for one in vars(builtins).values():
        if isinstance(one, type) and issubclass(one, BaseException):
            llvm.add_symbol(f"PyExc_{one.__name__}", id(one))
    return dynfunc


def _extension(name: str) -> ModuleType:
    """An extension module of numba, without the packages around it. Raises ImportError."""
    found = importlib.util.find_spec("numba")
    if found is None or not found.submodule_search_locations:
        raise ImportError("numba is not installed")
    file = f"{found.submodule_search_locations[0]}/{name}{sysconfig.get_config_var('EXT_SUFFIX')}"
    dotted = "numba." + name.replace("/", ".")
    spec = ModuleSpec(dotted, ExtensionFileLoader(dotted, file), origin=file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    return module


_used: list[Image] = []


def use() -> bool:
    """Use the image for this process's kernels; False if there is no image for it. Called before
    the first kernel is imported. If kernels are plain Python, there is nothing to load."""
    if plain.ACTIVE:
        return True
    for found in (*packaged.fitting(), None):
        try:
            _used[:] = [Image(unpacked(trust.read(found or path())))]
        except (OSError, ImportError, RuntimeError, ValueError):
            continue
        return True
    return False


def in_use() -> Image | None:
    """The image that this process uses."""
    return _used[0] if _used else None

"""The functions that compiled kernels call: numba's C helpers, the interpreter, and the C library.

What numba does for a function that it takes from its cache is done here by the same parts of it,
its three extension modules: see numba.core.base._load_global_helpers.
"""

import builtins
import ctypes
import importlib.util
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec
from types import ModuleType
from typing import Any


class Symbols:
    """Addresses by name. Raises ImportError if numba's extension modules cannot be loaded."""

    def __init__(self) -> None:
        self.dynfunc: Any = _extension("_dynfunc")
        """The extension module that makes callables of compiled wrappers."""
        helpers, runtime = _extension("_helperlib"), _extension("core/runtime/_nrt_python")
        self.own: dict[str, int] = {"_Py_NoneStruct": id(None)}
        """Symbols that only this process knows."""
        for name, address in (helpers.c_helpers | self.dynfunc.c_helpers).items():
            self.own[f"numba_{name}"] = address
        for name, address in runtime.c_helpers.items():
            self.own[name if name.startswith("_") else f"NRT_{name}"] = address
        for one in vars(builtins).values():
            if isinstance(one, type) and issubclass(one, BaseException):
                self.own[f"PyExc_{one.__name__}"] = id(one)  # to numba the object, not a pointer to it

    def address(self, name: str) -> int:
        """Address of a symbol of this list, else of the process's libraries. Raises ImportError."""
        if name in self.own:
            return self.own[name]
        try:
            found = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
        except AttributeError:
            found = None
        if not found:
            raise ImportError(f"the process has no {name}, which kernels call")
        return found


def _extension(name: str) -> ModuleType:
    """An extension module of numba, without the packages around it. Raises ImportError."""
    found = importlib.util.find_spec("numba")
    if found is None or not found.submodule_search_locations:
        raise ImportError("numba is not installed")
    file = f"{found.submodule_search_locations[0]}/{name}{EXTENSION_SUFFIXES[0]}"
    dotted = "numba." + name.replace("/", ".")
    spec = ModuleSpec(dotted, ExtensionFileLoader(dotted, file), origin=file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    return module

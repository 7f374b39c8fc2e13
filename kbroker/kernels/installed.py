"""Versions of installed packages, by the names of the folders that describe them.

`importlib.metadata` imports the parsers of e-mail, 25 ms in each start and a megabyte in each
process.
"""

import functools
from importlib.util import find_spec
from pathlib import Path

_DESCRIBED = ".dist-info"
_LLVM = "binding/libllvmlite.*"


@functools.cache
def version(package: str) -> str:
    """The version of a package that is imported by the name it is installed by. Raises
    importlib.metadata.PackageNotFoundError."""
    spec = find_spec(package)
    if spec is not None and spec.submodule_search_locations:
        folder = Path(spec.submodule_search_locations[0]).parent
        found = [one.name for one in folder.glob(f"{package}-*{_DESCRIBED}")]
        if len(found) == 1:
            return found[0].removeprefix(f"{package}-").removesuffix(_DESCRIBED)
    import importlib.metadata  # not installed in the usual way, or left over from another version

    return importlib.metadata.version(package)


def has_compiler() -> bool:
    """Whether kernels can be compiled: llvmlite has its library, which is not in a container."""
    spec = find_spec("llvmlite")
    folders = spec.submodule_search_locations if spec is not None else None
    return any(True for folder in folders or () for _ in Path(folder).glob(_LLVM))

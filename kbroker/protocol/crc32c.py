"""CRC-32C of bytes, by the library crc32c, for all that does not run kernels.

Its package imports its command line and the parsers of e-mail: 20 modules, 25 ms of each start and
a megabyte of each broker. So its extension module is loaded without the package.
"""

from collections.abc import Callable
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader
from importlib.util import find_spec, module_from_spec, spec_from_loader
from pathlib import Path

PACKAGE, EXTENSION = "crc32c", "_crc32c"
Checksum = Callable[..., int]


def _extension(folders: list[str]) -> Checksum | None:
    for folder in folders:
        for suffix in EXTENSION_SUFFIXES:
            file = Path(folder) / (EXTENSION + suffix)
            if file.exists():
                name = f"{PACKAGE}.{EXTENSION}"
                spec = spec_from_loader(name, ExtensionFileLoader(name, str(file)))
                assert spec is not None
                assert spec.loader is not None
                module = module_from_spec(spec)
                spec.loader.exec_module(module)
                found: Checksum = module.crc32c
                return found
    return None


def _loaded() -> Checksum:
    package = find_spec(PACKAGE)
    folders = package.submodule_search_locations if package is not None else None
    if (found := _extension(list(folders or ()))) is not None:
        return found
    from crc32c import crc32c as found_by_package  # built in some other way

    return found_by_package


crc32c: Checksum = _loaded()
"""crc32c(data, value=0): of bytes-like data; value: the checksum of what precedes it."""

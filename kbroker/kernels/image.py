"""All compiled kernels in one file, which the broker loads without numba: machine code needs no
compiler.

Importing numba and loading each cached kernel with it takes a third of a second and tens of
megabytes, in a process that compiles nothing. `kbroker.kernels.warm` therefore writes numba's own
results into an image beside numba's cache. A process that calls `use` before it imports the first
kernel gets the functions from there; all others (tests, tools that compile kernels of their own)
get them from numba.

The image holds linked code, which processes map and share (`linking/shared_image.py`). For
processors and code that the linker does not know it holds object files, which LLVM links in each
process (`linking/object_image.py`). It is loaded only from a file that no other user can write.
"""

import hashlib
import logging
import os
import platform
import sysconfig
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from kbroker.kernels import packaged, plain, trust
from kbroker.kernels.cache import cache_folder
from kbroker.kernels.installed import version
from kbroker.kernels.linking import processor
from kbroker.kernels.linking.areas import PAGE
from kbroker.kernels.linking.mapped_image import MappedImage
from kbroker.kernels.linking.shared_image import is_linked

if TYPE_CHECKING:
    from kbroker.kernels.linking.object_image import CompiledKernel

log = logging.getLogger(__name__)


class Image(Protocol):
    """The kernels of a process."""

    def function(self, source: Callable[..., Any]) -> Callable[..., Any] | None:
        """The compiled form of a function, None when the image has none. It accepts arguments of
        its signature; others raise TypeError or ValueError."""


def path() -> Path:
    """The path of the image: beside numba's cache, by processor and interpreter."""
    host = (platform.python_version(), sysconfig.get_platform(), version("llvmlite"), processor.identity())
    return cache_folder() / f"image-{hashlib.sha256(repr(host).encode()).hexdigest()[:16]}"


def write(kernels: Iterable["CompiledKernel"]) -> Path:
    """Write the image; the file is complete or does not exist. Raises OSError."""
    return trust.write(path(), made(kernels))


def made(kernels: Iterable["CompiledKernel"]) -> bytes:
    """An image file's content: linked code, or object files if it cannot be linked."""
    from kbroker.kernels.linking import linker, object_image  # a broker makes no image

    every = list(kernels)
    try:
        return linker.linked(every).packed()
    except ValueError as error:
        log.debug("LLVM links the kernels in each process: %s", error)
        return object_image.packed(every)


def loaded(file: Path) -> Image:
    """The kernels of an image file. Raises OSError, ImportError, RuntimeError or ValueError if it
    cannot be used."""
    with trust.opened(file) as opened:
        if is_linked(os.pread(opened.fileno(), PAGE, 0)):
            return MappedImage(opened.fileno())
        from kbroker.kernels.linking.object_image import ObjectImage, unpacked  # LLVM

        log.debug("LLVM links the kernels of %s", file)
        return ObjectImage(unpacked(opened.read()))


_used: list[Image] = []


def use() -> bool:
    """Use the image for this process's kernels; False if there is no image for it. Called before
    the first kernel is imported. If kernels are plain Python, there is nothing to load."""
    if plain.ACTIVE:
        return True
    for found in (*packaged.fitting(), None):
        try:
            _used[:] = [loaded(found or path())]
        except (OSError, ImportError, RuntimeError, ValueError) as error:
            log.debug("no kernels from an image: %s", error)
            continue
        return True
    return False


def in_use() -> Image | None:
    """The image that this process uses."""
    return _used[0] if _used else None

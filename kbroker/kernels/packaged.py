"""Kernel images in a wheel, one per level of x86-64, so that an installation compiles nothing.

A file's name says all that it depends on, so one that does not fit is never opened: the sources,
numba, llvmlite, the interpreter's minor version, and the level, all of whose features the processor
must have.
"""

import platform
import sys
from pathlib import Path

from kbroker.kernels.cache import digest
from kbroker.kernels.installed import version
from kbroker.kernels.linking import processor

FOLDER = Path(__file__).parent / "images"
V2 = frozenset({"cx16", "popcnt", "sse3", "sse4.1", "sse4.2", "ssse3"})
V3 = V2 | {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"}
LEVELS = {"x86-64-v3": V3, "x86-64-v2": V2}
"""LLVM's name of a level, the best first, and the features it has beyond those of every x86-64."""


def name(level: str) -> str:
    """File name of the image for a level, made or to be used by this interpreter."""
    llvm = ".".join(version("llvmlite").split(".")[:2])
    return f"image-{digest()}-{sys.implementation.cache_tag}-llvmlite-{llvm}-{level}"


def fitting() -> list[Path]:
    """Images in this package that run on this processor, the best first."""
    if platform.machine() != "x86_64" or not FOLDER.is_dir():
        return []
    has = processor.features()
    levels = [level for level, needed in LEVELS.items() if needed <= has]
    return [path for level in levels if (path := FOLDER / name(level)).is_file()]


def reason() -> str:
    """Why this installation has no kernels, where nothing can compile them."""
    lacks = sorted(V2 - processor.features())
    which = "cannot be used (KBROKER_LOG_LEVEL=DEBUG logs why)"
    if lacks:
        which = f"need a processor of x86-64-v2, and this one lacks {', '.join(lacks)}"
    return f"the compiled kernels {which}; no compiler is installed here: install the wheel with pip"

"""Compile every kernel to the on-disk cache and to the broker's image: ``python -m kbroker.kernels.warm``.

A first run takes a minute or two; later runs find what is there. ``make run`` and ``make test`` call it so
that no broker start has to wait for a compiler, and a broker that finds no image does.
"""

import importlib
import sys
import time
from pathlib import Path
from typing import Any

from kbroker.kernels import cache, image
from kbroker.kernels.image import CompiledKernel

PACKAGE = Path(cache.__file__).parent.parent


def modules() -> list[str]:
    """Dotted names of all modules that hold kernels."""
    found = []
    for source in cache.sources():
        text = source.read_text()
        if "\n@kernel(" in text and source.name != "jit.py":
            found.append(".".join(("kbroker", *source.relative_to(PACKAGE).with_suffix("").parts)))
    return found


def compiled(function: Any, signature: str) -> CompiledKernel:
    """What numba's cache holds of a kernel of this process, for the image; all of it from there: another process may
    have compiled it, too, and named its symbols otherwise. Raises LookupError when it holds nothing."""
    result = next(iter(function.overloads.values()))
    cache = function._cache  # numba offers no other way to its object code
    key = cache._index_key(signature, result.target_context.codegen())
    found = cache._cache_file.load(key)
    if found is None or result.environment.consts:
        raise LookupError(f"{function.py_func.__qualname__} is not in numba's cache")
    (_, kind, (code, _)), described = found[:2]
    assert kind == "object"
    source = function.py_func
    return CompiledKernel(
        source.__module__,
        source.__qualname__,
        code,
        described.llvm_cpython_wrapper_name,
        result.target_context.get_env_name(described),
    )


def main() -> int:
    """Import each module, which compiles or loads its kernels; a line for each. Then write the image."""
    start = time.monotonic()
    if image.use():
        sys.stderr.write(f"kernels are ready: {image.path()}\n")
        return 0
    names = modules()
    for number, name in enumerate(names, 1):
        began = time.monotonic()
        sys.stderr.write(f"kernels {number}/{len(names)} {name} ... ")
        sys.stderr.flush()
        importlib.import_module(name)
        sys.stderr.write(f"{time.monotonic() - began:.1f} s\n")
    from kbroker.kernels import jit

    written = image.write([compiled(*one) for one in jit.SIGNATURES.items()])
    sys.stderr.write(f"kernels ready in {time.monotonic() - start:.1f} s: {written}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

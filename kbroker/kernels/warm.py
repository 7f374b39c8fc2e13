"""Compile every kernel to the on-disk cache: ``python -m kbroker.kernels.warm``.

A first run takes a minute or two; later runs load what is there. ``make run`` and ``make test`` call it so
that no broker start has to wait for a compiler.
"""

import importlib
import sys
import time
from pathlib import Path

from kbroker.kernels import cache

PACKAGE = Path(cache.__file__).parent.parent


def modules() -> list[str]:
    """Dotted names of all modules that hold kernels."""
    found = []
    for source in cache.sources():
        text = source.read_text()
        if "\n@kernel(" in text and source.name != "jit.py":
            found.append(".".join(("kbroker", *source.relative_to(PACKAGE).with_suffix("").parts)))
    return found


def main() -> int:
    """Import each module, which compiles or loads its kernels; a line for each."""
    start = time.monotonic()
    names = modules()
    for number, name in enumerate(names, 1):
        began = time.monotonic()
        sys.stderr.write(f"kernels {number}/{len(names)} {name} ... ")
        sys.stderr.flush()
        importlib.import_module(name)
        sys.stderr.write(f"{time.monotonic() - began:.1f} s\n")
    sys.stderr.write(f"kernels ready in {time.monotonic() - start:.1f} s: {cache.cache_folder()}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

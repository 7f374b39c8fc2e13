"""Byte code of kbroker's modules, kept where Python itself keeps none.

With PYTHONDONTWRITEBYTECODE, or in a folder that this user cannot write, Python compiles all
sources again for each command: more than half of the time until a broker answers. kbroker then
keeps byte code in its cache folder, beside its kernels, in Python's own way: a file is used while
time and size of its source are the same.
"""

import sys
from pathlib import Path

FOLDER = "bytecode"


def keep_bytecode(beside: str | None = __spec__.cached) -> None:
    """Called before other modules are imported; child processes inherit it. beside: where Python
    keeps the byte code of this module."""
    if sys.pycache_prefix is not None or (beside and Path(beside).exists()):
        return
    from kbroker.kernels.trust import own_cache_folder

    try:
        sys.pycache_prefix = str(own_cache_folder(FOLDER))
    except OSError:
        return
    sys.dont_write_bytecode = False

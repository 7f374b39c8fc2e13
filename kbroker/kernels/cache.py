"""The folder of compiled kernels on disk, which cannot go stale.

numba's own cache looks only at the file of the outermost function, so an edited callee in another
file would leave a stale kernel in the cache. The folder therefore carries a digest of every source
that a kernel may depend on and of the numba version; a changed source starts a fresh folder.
Imports no numba: it is used before the first kernel loads.
"""

import functools
import hashlib
import os
from pathlib import Path

from kbroker.kernels import trust
from kbroker.kernels.installed import version

KERNEL_FOLDER = Path(__file__).parent
# what kernels outside this folder are called, and plain modules whose constants or functions they
# compile in
OTHER_KERNELS = ("_kernel.py", "layout.py")
ROWS = "rows"
"""A module of rows, or a package of them."""
OTHER_SOURCES = ("ipc/ring.py", "protocol/epochs.py")
NO_KERNELS = (
    "image.py",
    "installed.py",
    "packaged.py",
    "trust.py",
    "warm.py",
)  # they carry kernels from here to there

METRICS_OFF = "KBROKER_BENCH_WITHOUT_METRICS"
"""Environment variable of the bench: "1" compiles kernels that count nothing, into a folder of
their own."""
MEASURED = os.environ.get(METRICS_OFF) != "1"


def sources() -> list[Path]:
    """Every file whose text a compiled kernel may depend on, sorted."""
    package = KERNEL_FOLDER.parent
    found = [package / name for name in OTHER_SOURCES]
    for folder, folders, names in os.walk(package):  # one walk: each start of the broker waits for it
        if "__pycache__" in folders:
            folders.remove("__pycache__")
        here = Path(folder)
        for name in names:
            if name.endswith(".py") and _is_source(name, here.name == ROWS, here == KERNEL_FOLDER):
                found.append(here / name)
    return sorted(found)


def _is_source(name: str, is_in_rows: bool, is_own: bool) -> bool:
    if is_own:
        return name not in NO_KERNELS
    return is_in_rows or name == f"{ROWS}.py" or name.endswith(OTHER_KERNELS)


@functools.cache
def digest() -> str:
    """The digest of everything that machine code of kernels depends on, except the processor. Read
    once: a source that is edited while kernels compile does not name what was made before."""
    found = hashlib.sha256(f"{version('numba')} {MEASURED}".encode())
    for source in sources():
        found.update(source.read_bytes())
    return found.hexdigest()[:16]


def cache_folder() -> Path:
    """The folder of compiled kernels: per user, per content of the kernel sources. A folder that
    other users could write is never used. Raises OSError when there is no other folder."""
    return trust.own_cache_folder(f"kernels-{digest()}")

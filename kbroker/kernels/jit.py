"""The one door to numba: a typed decorator, an on-disk cache that can not go stale, and CPU facts.

numba's own cache looks only at the file of the outermost function, so an edited callee in another
file would leave a stale kernel behind. The cache folder therefore carries a digest of every kernel
source and of the numba version; a changed source starts a fresh folder.
"""

import hashlib
import os
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

KERNEL_FOLDER = Path(__file__).parent
# what kernels outside this folder are called, and plain modules whose constants or functions they compile in
KERNELS_ELSEWHERE = "*/*_kernel.py"
LAYOUT_SOURCES = (
    "protocol/batch_layout.py",
    "ipc/layout.py",
    "ipc/ring.py",
    "io/append_row.py",
    "io/drain_layout.py",
    "metrics/layout.py",
    "net/layout.py",
    "net/fetch_layout.py",
)


def sources() -> list[Path]:
    """Every file whose text a compiled kernel may depend on, sorted."""
    package = KERNEL_FOLDER.parent
    layouts = [package / name for name in LAYOUT_SOURCES if (package / name).exists()]
    return sorted([*KERNEL_FOLDER.glob("*.py"), *package.glob(KERNELS_ELSEWHERE)]) + layouts


def cache_folder() -> Path:
    """Where compiled kernels live: per user, per content of the kernel sources."""
    digest = hashlib.sha256(version("numba").encode())
    for source in sources():
        digest.update(source.read_bytes())
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = root / "kbroker" / f"kernels-{digest.hexdigest()[:16]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except OSError:
        pass
    fallback = Path(tempfile.gettempdir()) / f"kbroker-{os.getuid()}" / folder.name
    fallback.mkdir(parents=True, exist_ok=True, mode=0o700)
    return fallback


os.environ.setdefault("NUMBA_CACHE_DIR", str(cache_folder()))

import numba  # noqa: E402  the cache folder must be named before numba reads it
from llvmlite import binding as llvm  # noqa: E402

numba.config.CACHE_DIR = os.environ[
    "NUMBA_CACHE_DIR"
]  # for when another module imported numba before this one


def kernel(signature: str) -> Callable[[F], F]:
    """Compile for exactly this signature, when the module is imported, through the on-disk cache.

    For functions that Python calls: the signature is a contract, and a wrong argument is an error
    instead of a second, silently slower compilation.
    """

    def decorate(function: F) -> F:
        return cast(F, numba.njit(signature, cache=True, nogil=True, error_model="numpy")(function))

    return decorate


def inlined(function: F) -> F:
    """Compile as part of the kernels that call it; never called from Python."""
    return cast(F, numba.njit(inline="never", nogil=True, error_model="numpy")(function))


def cpu_has(feature: str) -> bool:
    """Whether this processor has an LLVM feature name such as ``sse4.2`` or ``crc``."""
    return bool(llvm.get_host_cpu_features().get(feature, False))

"""The environment of a process that has no compiled kernels yet."""

import os
from pathlib import Path


def fresh_environment(home: Path) -> dict[str, str]:
    """home: the folder of its caches. A process that has imported kernels, as this one may have,
    names its own cache for all that it starts; with that nothing would be compiled."""
    environment = os.environ | {"XDG_CACHE_HOME": str(home)}
    for name in ("NUMBA_CACHE_DIR", "KBROKER_NO_KERNELS"):
        environment.pop(name, None)
    return environment

"""The scene of the kernel that serves fetches."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.net.fetch.kernel_scene import KernelScene, needs_cachestat


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[KernelScene]:
    needs_cachestat(tmp_path)
    found = KernelScene(tmp_path, [4, 11])
    yield found
    found.close()

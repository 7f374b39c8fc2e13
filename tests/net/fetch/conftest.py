"""The scene of the kernel that serves fetches."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.net.fetch.kernel_scene import KernelScene, opened


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[KernelScene]:
    with opened(tmp_path, [4, 11]) as found:
        yield found

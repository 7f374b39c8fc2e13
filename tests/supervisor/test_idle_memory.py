"""The memory of an idle broker. Pages of libraries that other processes of the host share do not
count less."""

import time
from pathlib import Path

import pytest

from kbroker.kernels import image
from kbroker.kernels.linking import object_image
from kbroker.kernels.linking.shared_image import is_linked
from tests.conftest import BrokerFactory
from tests.kernels.kernels_of_numba import all_kernels

pytestmark = pytest.mark.slow

MAX_OWN = 82 << 20
"""Pages without a file, of all processes: 72 MiB on two cores. The goal is 100 MB with the pages of
files, which other brokers on the host share."""
MAX_OF_LINKER = 12 << 20
"""Its library has 50 MB mapped while it links."""


def own_memory(pid: int) -> int:
    """Bytes without a file, each page by the share of the process."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss_Anon:"))


def mapped(pid: int, library: str) -> int:
    """Bytes of a library's file in a process's memory."""
    size, here = 0, False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if not line[0].isupper():
            here = library in line
        elif here and line.startswith("Rss:"):
            size += int(line.split()[1]) << 10
    return size


def test_an_idle_broker_has_little_in_memory(broker_factory: BrokerFactory) -> None:
    node = broker_factory({"num.network.threads": "1", "num.io.threads": "1"})
    pids = [node.pid, *(child.pid for child in node.children().values())]
    assert sum(map(own_memory, pids)) < MAX_OWN
    if is_linked(image.path().read_bytes()):
        assert [mapped(pid, "libllvmlite") for pid in pids] == [0] * len(pids)


def test_llvm_gives_its_memory_back_where_it_links_the_kernels(
    broker_factory: BrokerFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = object_image.packed(all_kernels())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    image.path().touch(0o600)
    image.path().write_bytes(content)
    node = broker_factory()
    deadline = time.monotonic() + 60
    while (size := mapped(node.pid, "libllvmlite")) > MAX_OF_LINKER and time.monotonic() < deadline:
        time.sleep(0.2)
    assert 0 < size <= MAX_OF_LINKER

"""Which probe tells what lies in the page cache."""

import os
from pathlib import Path

import pytest

from kbroker.net import residency


def test_network_processes_that_start_at_once_do_not_stumble_over_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They try the probes on the same file, which the first one to be done removes."""
    write = os.write

    def slow(fd: int, data: bytes) -> int:
        (tmp_path / ".kbroker-residency").unlink()
        return write(fd, data)

    monkeypatch.setattr(os, "write", slow)
    assert callable(residency.choose(str(tmp_path)))
    assert list(tmp_path.iterdir()) == []

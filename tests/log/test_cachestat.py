"""Pages of a file in the page cache, as the kernel counts them."""

import mmap
import os
from pathlib import Path

import pytest

from kbroker.log.cachestat import STATES, page_counts

PAGES = 5


def test_written_pages_are_counted_as_cached(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(bytes(PAGES * mmap.PAGESIZE))
    fd = os.open(path, os.O_RDONLY)
    try:
        counts = dict(zip(STATES, page_counts(fd), strict=True))
        of_two = page_counts(fd, mmap.PAGESIZE, 2 * mmap.PAGESIZE)[0]
    except OSError as error:
        pytest.skip(f"this kernel has no cachestat: {error}")
    finally:
        os.close(fd)
    assert (counts["cached"], of_two) == (PAGES, 2)


def test_a_closed_descriptor_is_an_error() -> None:
    with pytest.raises(OSError, match=r"."):
        page_counts(-1)

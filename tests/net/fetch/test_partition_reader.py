"""What a reader of a partition makes of its folder."""

from pathlib import Path

import pytest

from kbroker.net.fetch.partition_reader import epoch_end


def test_a_folder_that_has_moved_says_nothing_of_epochs(tmp_path: Path) -> None:
    """A consumer whose epoch was not found there would begin anew where its auto.offset.reset
    says."""
    assert epoch_end(str(tmp_path), 3, 10) == (-1, -1)
    with pytest.raises(FileNotFoundError):
        epoch_end(str(tmp_path / "moved-0"), 3, 10)

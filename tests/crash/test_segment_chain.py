"""The chain of segments that a crash leaves, and what breaks it."""

from pathlib import Path

import pytest

from tests.crash.segment_chain import all_faults, chain_faults
from tests.log.batch_bytes import batch

A, B, C = batch(0, [b"a", b"b"]), batch(2, [b"c"]), batch(3, [b"d"])


def written(folder: Path, segments: dict[int, bytes]) -> Path:
    folder.mkdir(parents=True)
    for base, data in segments.items():
        (folder / f"{base:020}.log").write_bytes(data)
    return folder


@pytest.mark.parametrize(
    "segments",
    [{}, {0: b""}, {0: A, 2: B, 3: b""}, {0: A + B, 3: C[:-1]}, {2: B, 3: C}],
    ids=["no segment", "no batch", "an empty one", "a torn end", "a log start"],
)
def test_a_whole_chain_has_no_faults(tmp_path: Path, segments: dict[int, bytes]) -> None:
    assert chain_faults(written(tmp_path / "t-0", segments)) == []


@pytest.mark.parametrize(
    ("segments", "fault"),
    [
        ({0: b"", 2: B}, "ends at offset 0, and 00000000000000000002.log follows"),
        ({0: A, 3: C}, "ends at offset 2, and 00000000000000000003.log follows"),
        ({0: A + B, 2: B}, "ends at offset 3, and 00000000000000000002.log follows"),
        ({0: A + B[:-1], 2: B}, "ends within a batch, and 00000000000000000002.log follows"),
    ],
    ids=["a segment above a cut", "a gap", "an overlap", "a torn segment"],
)
def test_a_broken_chain_is_a_fault_with_its_file(
    tmp_path: Path, segments: dict[int, bytes], fault: str
) -> None:
    folder = written(tmp_path / "site0" / "t-0", segments)
    written(tmp_path / "site0" / "t-1", {0: A, 2: B})
    assert chain_faults(folder) == [f"{folder / f'{0:020}.log'} {fault}"]
    assert len(all_faults([tmp_path / "site0"], "t")) == 1

"""A log that is scanned after a crash is read once, with the same result as if it were read
twice."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kbroker.io.append.rows import AppendRow
from kbroker.io.recovery import producer_replay, segment_scan
from kbroker.io.recovery.segment_scan import ScannedRows
from kbroker.kernels.scan_rows import ScannedBatch
from kbroker.log.errors import CorruptLog
from tests.io.append.plain_append import NOW, Log, topic_config
from tests.io.recovery.torn_log import filled, load
from tests.log.batch_bytes import batch, end_marker

BATCHES = 30


def rows(count: int) -> NDArray[np.int64]:
    found = ScannedBatch.table(count)
    found[:, ScannedBatch.BASE_OFFSET] = np.arange(count)
    return found


def known(scanned: ScannedRows, base: int) -> list[int] | None:
    chunks = scanned.of(base)
    if chunks is None:
        return None
    return [int(row[ScannedBatch.BASE_OFFSET]) for chunk in chunks for row in chunk]


@pytest.fixture
def scanned(monkeypatch: pytest.MonkeyPatch) -> ScannedRows:
    monkeypatch.setattr(segment_scan, "MAX_KNOWN_ROWS", 5)
    return ScannedRows()


def test_rows_are_copied_since_the_scan_fills_them_again(scanned: ScannedRows) -> None:
    chunk = rows(3)
    scanned.begin(7)
    scanned.add(7, chunk, 2)
    chunk[:, ScannedBatch.BASE_OFFSET] = 9
    scanned.add(7, chunk, 1)
    assert known(scanned, 7) == [0, 1, 9]
    assert known(scanned, 8) is None


def test_a_segment_is_known_as_a_whole_or_not_at_all(scanned: ScannedRows) -> None:
    scanned.begin(0)
    scanned.add(0, rows(3), 3)
    scanned.add(0, rows(3), 3)
    scanned.add(0, rows(1), 1)
    assert known(scanned, 0) is None
    scanned.begin(7)
    scanned.add(7, rows(5), 5)
    assert known(scanned, 7) == [0, 1, 2, 3, 4], "there is room again"
    scanned.begin(9)
    scanned.add(9, rows(1), 1)
    assert known(scanned, 9) is None
    assert known(scanned, 7) is not None


def test_an_earlier_scan_of_a_segment_does_not_count(scanned: ScannedRows) -> None:
    scanned.begin(0)
    scanned.add(0, rows(4), 4)
    scanned.begin(0)
    scanned.add(0, rows(3), 2)
    assert known(scanned, 0) == [0, 1]
    scanned.forget(0)
    assert known(scanned, 0) is None


class NotAgain:
    def __init__(self, *_: object, **how: object) -> None: ...

    def __iter__(self) -> Iterator[object]:
        pytest.fail("a segment is read again")


def test_a_small_log_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = filled(tmp_path / "log", 20)
    assert len(list(log.folder.glob("*.log"))) > 1
    monkeypatch.setattr(producer_replay, "Scan", NotAgain)
    loaded = load(log)
    assert [entry.last_offset for entry in loaded.producers] == [18, 19]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(("data", "data", "transactional", "commit", "abort", "roll")), st.integers(0, 2)
    ),
    min_size=1,
    max_size=BATCHES,
)


def write(log: Log, steps: list[tuple[str, int]]) -> None:
    sequences = [0, 0, 0]
    for number, (step, producer) in enumerate(steps):
        if step == "roll":
            if log.row[AppendRow.POSITION]:
                log.partition.roll(NOW)
        elif step in ("commit", "abort"):
            log.append(end_marker(0, producer + 1, 1, commit=step == "commit", timestamp=NOW + number))
        else:
            log.append(
                batch(
                    0, [b"x" * 60], [NOW + number], attributes=0x10 * (step == "transactional"),
                    producer_id=producer + 1, producer_epoch=1, base_sequence=sequences[producer],
                )
            )  # fmt: skip
            sequences[producer] += 1


def damage(log: Log, segment: int, cut: int, flip: int | None) -> None:
    paths = sorted(log.folder.glob("*.log"))
    path = paths[segment % len(paths)]
    content = bytearray(path.read_bytes())
    if flip is not None and content:
        content[flip % len(content)] ^= 1
    path.write_bytes(content[: max(0, len(content) - cut)])


def result(log: Log, recovery_point: int, same_boot: bool) -> tuple[object, ...]:
    """The loaded log without its folder and times, and its files."""
    try:
        loaded = log.load(recovery_point=recovery_point, same_boot=same_boot)
    except CorruptLog as error:
        return (type(error),)
    for each in loaded.closed:
        each.modified_ms = 0
    return (
        *(loaded.closed, loaded.active, loaded.producers, loaded.first_unstable, loaded.has_aborted),
        *(loaded.epochs.entries, [Path(path).name for path in loaded.deleted]),
        {path.name: path.read_bytes() for path in log.folder.iterdir()},
    )


@settings(deadline=None, max_examples=60)
@given(
    steps=STEPS,
    max_rows=st.sampled_from((1, 3, 10, 1000)),
    segment=st.integers(0, 10),
    cut=st.sampled_from((0, 0, 1, 100)),
    flip=st.none() | st.integers(0, 10_000),
    recovery_point=st.integers(0, BATCHES),
    same_boot=st.booleans(),
    with_snapshots=st.booleans(),
)
def test_a_log_that_is_read_once_is_the_one_that_is_read_twice(
    steps: list[tuple[str, int]],
    max_rows: int,
    segment: int,
    cut: int,
    flip: int | None,
    recovery_point: int,
    same_boot: bool,
    with_snapshots: bool,
) -> None:
    """Whatever is damaged, wherever the scan begins, and however many rows are kept."""
    config = topic_config(segment_bytes=700, index_interval_bytes=100)
    with tempfile.TemporaryDirectory() as root, pytest.MonkeyPatch.context() as patch:
        once = Log(Path(root, "once"), config)
        once.open()
        write(once, steps)
        once.partition.abandon()
        damage(once, segment, cut, flip)
        if not with_snapshots:
            for path in once.folder.glob("*.snapshot"):
                path.unlink()
        twice = Log(Path(root, "twice"), config)
        shutil.copytree(once.folder, twice.folder)
        patch.setattr(segment_scan, "MAX_KNOWN_ROWS", max_rows)
        found = result(once, recovery_point, same_boot)
        patch.setattr(segment_scan, "MAX_KNOWN_ROWS", 0)
        assert found == result(twice, recovery_point, same_boot)

"""Log starts of deleted records: on disk when told so, and written once."""

from pathlib import Path

import pytest

from kbroker.io.files.log_dir import LogDir
from kbroker.io.log_dirs.offset_checkpoints import OffsetCheckpoints
from kbroker.log import checkpoint
from tests.io.append.plain_append import Log
from tests.log.batch_bytes import batch


def test_a_log_start_is_written_before_the_answer_and_not_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log(tmp_path)
    log.open()
    log.append(batch(0, [b"one", b"two", b"three"]))
    checkpoints = OffsetCheckpoints({str(tmp_path): LogDir(str(tmp_path))}, lambda *_: pytest.fail("failed"))
    writes: list[object] = []
    write = checkpoint.write_offsets

    def counted(path: str, offsets: dict[tuple[str, int], int], sync: bool) -> None:
        writes.append(dict(offsets))
        write(path, offsets, sync)

    monkeypatch.setattr(checkpoint, "write_offsets", counted)
    for offset in (1, 1, 2, 1):
        log.partition.delete_records(offset)
        checkpoints.write_starts([(log.partition, log.partition.log_start)])
        assert LogDir(str(tmp_path)).log_start_offsets() == {("t", 0): log.partition.log_start}
    assert writes == [{("t", 0): 1}, {("t", 0): 2}]
    checkpoints.forget([log.partition])
    assert LogDir(str(tmp_path)).log_start_offsets() == {}
    checkpoints.write_starts([(log.partition, log.partition.log_start)])
    assert LogDir(str(tmp_path)).log_start_offsets() == {("t", 0): 2}

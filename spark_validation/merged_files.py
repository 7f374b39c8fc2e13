"""The many small files of a history as few: each scan of Spark opens every file, some 4 ms each,
and a judgement scans a history a hundred times.

Each client of a run writes files of its own; an hour with clients that come and go leaves two
thousand of a kind.
"""

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from loadtest.history import KINDS

MANY_FILES = 64
SMALL_FILE_BYTES = 1 << 20  # on average; larger ones take longer to read than to open
ROWS_AT_ONCE = 1 << 20  # of a row group


def merged(history: Path, kind: str, into: Path) -> Path:
    """The folder to read the rows of a kind of history.KINDS from: a copy in one file below `into`
    if there are many small ones, else `history`. A file that cannot be read is left to Spark, which
    names it."""
    files = sorted(history.glob("*.parquet"))
    if len(files) < MANY_FILES or sum(file.stat().st_size for file in files) > SMALL_FILE_BYTES * len(files):
        return history
    folder = into / kind
    folder.mkdir(parents=True)
    rows = ds.dataset([str(file) for file in files], KINDS[kind], format="parquet")
    with contextlib.suppress(pa.ArrowException, OSError):
        with pq.ParquetWriter(folder / "all.parquet", KINDS[kind], compression="snappy") as writer:
            for table in row_groups(rows.to_batches()):
                writer.write_table(table)
        return folder
    return history


def row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches, of which each file has its own, as tables of a row group each."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        waiting.append(batch)
        count += batch.num_rows
        if count >= ROWS_AT_ONCE:
            yield pa.Table.from_batches(waiting)
            waiting, count = [], 0
    if count:
        yield pa.Table.from_batches(waiting)

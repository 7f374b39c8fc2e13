"""Writes a client's history: Parquet files that are whole or not there, rolled every few seconds.

Rows arrive as columns of numpy arrays. A thread of its own encodes and writes, so that a slow disk does not delay the
load; its queue is bounded in rows, past that the client waits (and the delay shows in its figures).
"""

import queue
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from loadtest.history import KINDS, ROLL_ROWS, ROLL_SECONDS

Columns = dict[str, Any]
QUEUE_BLOCKS = 64
ROW_GROUP = 1 << 15  # small, so that its memory is used again while it is warm
DELTA = {pa.int16(), pa.int32(), pa.int64()}


class _File:
    """One open `.part` file of a kind."""

    def __init__(self, path: Path, schema: pa.Schema, now: float) -> None:
        self.path = path
        self.part = path.with_name(f".{path.name}.part")
        self.began = now
        self.rows = 0
        texts = [field.name for field in schema if field.type == pa.string()]
        deltas = {field.name: "DELTA_BINARY_PACKED" for field in schema if field.type in DELTA}
        self._writer = pq.ParquetWriter(
            self.part,
            schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=texts,
            column_encoding=deltas,
            write_statistics=True,
        )

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table)
        self.rows += table.num_rows

    def seal(self) -> None:
        """Footer, then the name that says "whole". Not synced: it need not survive a power cut, only a kill."""
        self._writer.close()
        self.part.replace(self.path)


class HistoryWriter:
    """All histories of one client. Runs in: the client's process. Owner: the client, which closes it."""

    def __init__(self, folder: Path, writer: str, roll_seconds: float = ROLL_SECONDS) -> None:
        self._folder = folder
        self._writer = writer
        self._roll_seconds = roll_seconds
        self._files: dict[str, _File] = {}
        self._held: dict[str, list[pa.Table]] = {}
        self._numbers: dict[str, int] = {}
        self._blocks: queue.Queue[tuple[str, Columns] | None] = queue.Queue(QUEUE_BLOCKS)
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="history", daemon=True)
        self._thread.start()

    def add(self, kind: str, columns: Columns) -> None:
        """Rows of a kind; a column is an array, or one value for all rows. Raises what the writing thread met."""
        if self._failure is not None:
            raise self._failure
        self._blocks.put((kind, columns))

    def close(self) -> None:
        """Writes and seals everything."""
        self._blocks.put(None)
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            while True:
                try:
                    block = self._blocks.get(timeout=0.5)
                except queue.Empty:
                    self._roll(time.monotonic())
                    continue
                if block is None:
                    break
                self._write(*block)
                self._roll(time.monotonic())
            self._roll(float("inf"))
        except BaseException as failure:
            self._failure = failure
            while self._blocks.get() is not None:  # who adds must not wait for a dead thread
                pass

    def _write(self, kind: str, columns: Columns) -> None:
        table = as_table(kind, columns)
        file = self._files.get(kind)
        if file is None:
            number = self._numbers.get(kind, 0)
            self._numbers[kind] = number + 1
            folder = self._folder / kind
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"{self._writer}-{number:04d}.parquet"
            file = self._files[kind] = _File(path, KINDS[kind], time.monotonic())
        held = self._held.setdefault(kind, [])
        held.append(table)
        if sum(part.num_rows for part in held) >= ROW_GROUP:
            self._flush(kind)

    def _flush(self, kind: str) -> None:
        held = self._held.pop(kind, [])
        if held:
            self._files[kind].write(pa.concat_tables(held).combine_chunks())

    def _roll(self, now: float) -> None:
        for kind, file in list(self._files.items()):
            if now - file.began >= self._roll_seconds or file.rows >= ROLL_ROWS:
                self._flush(kind)
                file.seal()
                del self._files[kind]


def as_table(kind: str, columns: Columns) -> pa.Table:
    """Columns of a kind as a table of its schema. Raises KeyError when a column is missing."""
    schema = KINDS[kind]
    rows = max(len(column) for column in columns.values() if _is_array(column))
    arrays = [_array(columns[field.name], field.type, rows) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def _is_array(column: Any) -> bool:
    return isinstance(column, list | np.ndarray)


def _array(column: Any, kind: pa.DataType, rows: int) -> pa.Array:
    if not _is_array(column):
        return pa.repeat(pa.scalar(column, kind), rows)
    return pa.array(column, type=kind)

"""Writes a client's history: Parquet files that are whole or not there, rolled every few seconds.

Rows arrive as columns of numpy arrays. A thread of its own encodes and writes, so that a slow disk does not delay the
load; its queue is bounded in rows, past that the client waits (and the delay shows in its figures).
"""

import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from loadtest.history import KINDS, ROLL_ROWS, ROLL_SECONDS

Columns = dict[str, Any]  # name -> array or list of values, or one value for all rows
QUEUE_BLOCKS = 64
ROW_GROUP = 1 << 15  # small, so that its memory is used again while it is warm
TEXT = pa.dictionary(pa.int32(), pa.string())  # what is the same in all rows is not hashed a row
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
            pa.schema([(f.name, TEXT if f.type == pa.string() else f.type) for f in schema]),
            compression="snappy",
            use_dictionary=texts,
            column_encoding=deltas,
            write_statistics=False,  # a fifth of the cost, and nobody skips rows by them
            store_schema=False,  # texts are read as texts
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
        self._held: dict[str, list[Columns]] = {}
        self._numbers: dict[str, int] = {}
        self._blocks: queue.Queue[tuple[str, Columns | Callable[[], Columns]] | None] = queue.Queue(
            QUEUE_BLOCKS
        )
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="history", daemon=True)
        self._thread.start()

    def add(self, kind: str, columns: Columns | Callable[[], Columns]) -> None:
        """Rows of a kind, or what makes them, called in the writing thread. Raises what the writing thread met."""
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
        last = False
        try:
            while not last:
                try:
                    block = self._blocks.get(timeout=0.5)
                except queue.Empty:
                    self._roll(time.monotonic())
                    continue
                last = block is None
                if block is not None:
                    self._write(*block)
                self._roll(float("inf") if last else time.monotonic())
        except BaseException as failure:
            self._failure = failure
            while not last:  # who adds must not wait for a dead thread
                last = self._blocks.get() is None

    def _write(self, kind: str, columns: Columns | Callable[[], Columns]) -> None:
        rows = columns() if callable(columns) else columns
        if kind not in self._files:
            number = self._numbers.get(kind, 0)
            self._numbers[kind] = number + 1
            folder = self._folder / kind
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"{self._writer}-{number:04d}.parquet"
            self._files[kind] = _File(path, KINDS[kind], time.monotonic())
        held = self._held.setdefault(kind, [])
        held.append(rows)
        if sum(map(count, held)) >= ROW_GROUP:
            self._flush(kind)

    def _flush(self, kind: str) -> None:
        held = self._held.pop(kind, [])
        if held:
            self._files[kind].write(as_table(kind, held))

    def _roll(self, now: float) -> None:
        for kind, file in list(self._files.items()):
            if now - file.began >= self._roll_seconds or file.rows >= ROLL_ROWS:
                self._flush(kind)
                file.seal()
                del self._files[kind]


def as_table(kind: str, blocks: list[Columns]) -> pa.Table:
    """Blocks of rows as one table of the kind's columns. Raises KeyError when a column is missing."""
    counts = [count(block) for block in blocks]
    arrays = [_array([block[field.name] for block in blocks], counts, field.type) for field in KINDS[kind]]
    return pa.Table.from_arrays(arrays, names=KINDS[kind].names)


def count(block: Columns) -> int:
    """How many rows."""
    return max(len(column) for column in block.values() if _is_array(column))


def _is_array(column: Any) -> bool:
    return isinstance(column, list | np.ndarray)


def _array(parts: list[Any], counts: list[int], kind: pa.DataType) -> pa.Array:
    if not any(map(_is_array, parts)) and len(set(parts)) == 1:
        if kind != pa.string():
            return pa.repeat(pa.scalar(parts[0], kind), sum(counts))
        places = pa.repeat(pa.scalar(0, pa.int32()), sum(counts))
        return pa.DictionaryArray.from_arrays(places, pa.array(parts[:1], kind))
    whole = [part if _is_array(part) else [part] * rows for part, rows in zip(parts, counts, strict=True)]
    if kind == pa.string():
        return pa.array([text for part in whole for text in part], kind).dictionary_encode()
    return pa.array(np.concatenate(whole), type=kind)

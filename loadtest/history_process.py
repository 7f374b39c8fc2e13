"""The process that writes a client's history: Parquet files that are whole or not there, rolled
every few seconds.

`python -m loadtest.history_process` is started by a HistoryWriter, which sends it rows
(loadtest/ring.py). As a separate process it costs the client's Python nothing, and when the client
is killed, it still writes all rows that were sent.
"""

import pickle
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from loadtest.history import KINDS, ROLL_ROWS
from loadtest.ring import Receiver, Ring

Columns = dict[str, Any]  # name -> array or list of values, or one value for all rows
Rows = Columns | Callable[[], Columns]
POLL_S = 0.5
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
            write_statistics=False,  # a fifth of the cost, and no reader skips rows by them
            store_schema=False,  # texts are read as texts
        )

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table)
        self.rows += table.num_rows

    def seal(self) -> None:
        """Write the footer, then rename the file: only complete files have their final name. Not
        synced: it must survive a kill, not a power cut."""
        self._writer.close()
        self.part.replace(self.path)


class HistoryProcess:
    """All histories of one client. Runs in: a process of its own, beside the client's."""

    def __init__(self, folder: Path, writer: str, roll_seconds: float) -> None:
        self._folder = folder
        self._writer = writer
        self._roll_seconds = roll_seconds
        self._files: dict[str, _File] = {}
        self._held: dict[str, list[Columns]] = {}
        self._numbers: dict[str, int] = {}

    def serve(self, receiver: Receiver) -> None:
        """Write rows until the client has closed the pipe or ended, then seal all files."""
        while True:
            if receiver.ready(POLL_S):
                parts = receiver.next()
                if parts is None:
                    break
                kind, rows = pickle.loads(parts[0], buffers=parts[1:])
                self.write(kind, rows)
            self.roll(time.monotonic())
        self.roll(float("inf"))

    def write(self, kind: str, rows: Rows) -> None:
        if kind not in self._files:
            number = self._numbers.get(kind, 0)
            self._numbers[kind] = number + 1
            folder = self._folder / kind
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"{self._writer}-{number:04d}.parquet"
            self._files[kind] = _File(path, KINDS[kind], time.monotonic())
        held = self._held.setdefault(kind, [])
        held.append(rows() if callable(rows) else rows)
        if sum(map(count, held)) >= ROW_GROUP:
            self._flush(kind)

    def _flush(self, kind: str) -> None:
        held = self._held.pop(kind, [])
        if held:
            self._files[kind].write(as_table(kind, held))

    def roll(self, now: float) -> None:
        for kind, file in list(self._files.items()):
            if now - file.began >= self._roll_seconds or file.rows >= ROLL_ROWS:
                self._flush(kind)
                file.seal()
                del self._files[kind]


def as_table(kind: str, blocks: list[Columns]) -> pa.Table:
    """Blocks of rows as one table of the kind's columns. Raises KeyError when a column is
    missing."""
    counts = [count(block) for block in blocks]
    arrays = [_array([block[field.name] for block in blocks], counts, field.type) for field in KINDS[kind]]
    return pa.Table.from_arrays(arrays, names=KINDS[kind].names)


def count(block: Columns) -> int:
    """Rows of a block."""
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


class WithoutPandas:
    """Refuses the import of pandas: pyarrow imports it with its first table if it is installed, a
    second of CPU for nothing that is used here."""

    @staticmethod
    def find_spec(name: str, _path: Any = None, _target: Any = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("histories need no pandas")


def main() -> None:
    sys.meta_path.insert(0, WithoutPandas)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the conductor, which ends players in order
    folder, writer, roll_seconds, ring, pipe = sys.argv[1:]
    HistoryProcess(Path(folder), writer, float(roll_seconds)).serve(Receiver(Ring(int(ring)), int(pipe)))


if __name__ == "__main__":
    main()

"""A small judge of histories with pyarrow and numpy alone: for the end-to-end test, and to look at
a run quickly.

`python -m tests.loadtest.plain_judge RUN` prints what it finds; the verdict proper is spark_validation's.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from loadtest.history import KINDS, SendStatus, TransactionOutcome
from loadtest.run import load_consumers, load_producers, load_run


def rows(folder: Path, kind: str) -> dict[str, Any]:
    """All rows of a kind as numpy columns."""
    files = sorted((folder / kind).glob("*.parquet"))
    tables = [pq.ParquetFile(file).read() for file in files]
    table = pa.concat_tables(tables) if tables else KINDS[kind].empty_table()
    return {name: table[name].to_numpy() for name in table.column_names}


def judge(folder: Path) -> dict[str, int]:
    """Counts by kind of anomaly; all zero is clean. Raises AssertionError when the run cannot be
    judged."""
    run = load_run(folder)
    assert run.drained, "not drained"
    modes = {topic.name: topic.mode for topic in run.topics}
    sends, reads, ended = rows(folder, "sends"), rows(folder, "reads"), rows(folder, "transactions")
    drains = {
        consumer.isolation: consumer.consumer
        for consumer in load_consumers(folder)
        if consumer.role == "drain"
    }
    exactly_once = np.array([p.producer for p in load_producers(folder) if p.idempotent])
    outcome = {
        (int(p), int(t)): int(o)
        for p, t, o in zip(ended["producer"], ended["transaction"], ended["outcome"], strict=True)
    }
    found: dict[str, int] = dict.fromkeys(
        ("altered", "lost", "misplaced", "duplicate", "reordered", "aborted"), 0
    )
    found["altered"] = int((~reads["intact"]).sum())
    for isolation, consumer in drains.items():
        own = {name: column[reads["consumer"] == consumer] for name, column in reads.items()}
        for topic, mode in modes.items():
            here = {name: column[own["topic"] == topic] for name, column in own.items()}
            sent = {name: column[sends["topic"] == topic] for name, column in sends.items()}
            acked = sent["status"] == SendStatus.ACKED
            if mode in ("transactional", "copied"):
                ends = np.array(
                    [
                        outcome.get((int(p), int(t)), 2)
                        for p, t in zip(sent["producer"], sent["transaction"], strict=True)
                    ]
                )
                aborted = _identities(sent, ends == TransactionOutcome.ABORTED)
                if isolation == "read_committed":
                    found["aborted"] += int(np.isin(_identities(here), aborted).sum())
                    acked &= ends == TransactionOutcome.COMMITTED
            _places(found, here, sent, acked & (sent["offset"] >= 0))
            once = np.isin(here["producer"], exactly_once)
            found["duplicate"] += int(once.sum() - len(np.unique(_identities(here, once))))
            found["reordered"] += _backward(here, once)
    return found


def _identities(table: dict[str, Any], which: Any = slice(None)) -> Any:
    return table["producer"][which].astype(np.int64) << 40 | table["seq"][which]


def _places(found: dict[str, int], here: dict[str, Any], sent: dict[str, Any], acked: Any) -> None:
    """Every acknowledged record at its place."""
    places = here["partition"].astype(np.int64) << 44 | here["offset"]
    order = np.argsort(places)
    expected = sent["partition"][acked].astype(np.int64) << 44 | sent["offset"][acked]
    at = np.searchsorted(places[order], expected)
    there = at < len(places)
    there[there] = places[order][at[there]] == expected[there]
    found["lost"] += int((~there).sum())
    same = _identities(here)[order][at[there]] == _identities(sent, acked)[there]
    found["misplaced"] += int((~same).sum())


def _backward(here: dict[str, Any], once: Any) -> int:
    order = np.lexsort((here["offset"][once], here["partition"][once], here["producer"][once]))
    producer, partition, seq = (here[name][once][order] for name in ("producer", "partition", "seq"))
    same = (producer[1:] == producer[:-1]) & (partition[1:] == partition[:-1])
    return int((same & (seq[1:] <= seq[:-1])).sum())


if __name__ == "__main__":
    print(judge(Path(sys.argv[1])))

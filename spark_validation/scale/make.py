"""`python -m spark_validation.scale.make DIR --records N`: a clean run of N records, with segment
files and histories.

DIR/run is the run folder, DIR/data the log directory. One topic, `producers` idempotent producers
over `partitions` partitions, one group of consumers and one drain consumer that read everything.
Times are made up: 100 000 records/s.
"""

import argparse
import base64
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from loadtest import history
from loadtest.run import ConsumerClient, PartitionEnds, ProducerClient, Run, Topic, save_client, save_run
from spark_validation.scale import batch_kernel as bk

RUN = 20_001
TOPIC = "scale"
PARTITIONS = 8
PRODUCERS = 4
BATCH = 500
VALUE_BYTES = 100
SEGMENT_BYTES = 1 << 30
INDEX_INTERVAL = 4096
FIRST_NS = 1_780_000_000_000_000_000
STEP_NS = 10_000
ACK_NS = 3_000_000
SEEN_NS = 9_000_000
GROUP = "scale-group"
ROUND = 2048  # batches made at once

Words = NDArray[np.int64]


class Log:
    """The segment files of one partition, written front to back."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        identifier = (
            base64.urlsafe_b64encode(uuid.uuid5(uuid.NAMESPACE_OID, TOPIC).bytes).decode().rstrip("=")
        )
        (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {identifier}")
        self.folder = folder
        self.base = self.size = self.indexed = 0
        self.entries: list[Words] = []
        self.file = open(folder / f"{0:020d}.log", "wb")  # noqa: SIM115  closed by `close`

    def append(self, data: memoryview, plan: Words) -> None:
        if self.size + len(data) > SEGMENT_BYTES:
            self.close()
            self.base, self.size, self.indexed = int(plan[0, bk.BASE_OFFSET]), 0, 0
            self.file = open(self.folder / f"{self.base:020d}.log", "wb")  # noqa: SIM115
        self.file.write(data)
        last = plan[:, bk.BASE_OFFSET] + plan[:, bk.COUNT] - 1
        entries = np.stack([last - self.base, plan[:, bk.POSITION] + self.size], axis=1)
        self.entries.append(entries[entries[:, 1] > self.indexed])  # batches are larger than the interval
        self.indexed = INDEX_INTERVAL
        self.size += len(data)

    def close(self) -> None:
        self.file.close()
        entries = np.concatenate(self.entries).astype(">i4")
        (self.folder / f"{self.base:020d}.index").write_bytes(entries.tobytes())
        self.entries = []


class Rows:
    """A Parquet file of a history, in pieces of a million rows."""

    def __init__(self, folder: Path, kind: str, writer: str) -> None:
        (folder / kind).mkdir(parents=True, exist_ok=True)
        self.schema = history.KINDS[kind]
        self.path = folder / kind / f"{writer}-%04d.parquet"
        self.number = self.held = 0
        self.tables: list[pa.Table] = []

    def add(self, columns: dict[str, Words | int | bool | str]) -> None:
        count = len(columns["offset"])  # type: ignore[arg-type]
        arrays = [
            pa.array(value, field.type, from_pandas=False)
            if isinstance(value := columns[field.name], np.ndarray)
            and value.dtype == field.type.to_pandas_dtype()
            else pa.array(value).cast(field.type)
            if isinstance(value, np.ndarray)
            else pa.repeat(pa.scalar(value, field.type), count)
            for field in self.schema
        ]
        self.tables.append(pa.Table.from_arrays(arrays, schema=self.schema))
        self.held += count
        if self.held >= history.ROLL_ROWS:
            self.flush()

    def flush(self) -> None:
        if self.tables:
            table = pa.concat_tables(self.tables)
            pq.write_table(table, str(self.path) % self.number, compression="zstd")
            self.tables, self.held, self.number = [], 0, self.number + 1


def make(folder: Path, records: int, value_bytes: int = VALUE_BYTES) -> None:
    """Writes the run. Raises FileExistsError when the folder holds one."""
    (folder / "run").mkdir(parents=True)
    run = folder / "run"
    began = time.monotonic()
    rounds = max(1, records // (BATCH * PARTITIONS))
    sends = [Rows(run, "sends", history.writer_name("producer", p)) for p in range(PRODUCERS)]
    reads = [Rows(run, "reads", history.writer_name("consumer", c)) for c in range(2)]
    ends = {}
    for partition in range(PARTITIONS):
        log = Log(folder / "data" / f"{TOPIC}-{partition}")
        for first in range(0, rounds, ROUND):
            write_round(log, partition, first, min(ROUND, rounds - first), rounds, value_bytes, sends, reads)
        log.close()
        ends[str(partition)] = PartitionEnds(0, rounds * BATCH, rounds * BATCH)
    for rows in (*sends, *reads):
        rows.flush()
    describe(run, rounds * BATCH * PARTITIONS, ends)
    print(
        f"[made] {rounds * BATCH * PARTITIONS} records in {time.monotonic() - began:.0f} s: {folder}",
        file=sys.stderr,
    )


def write_round(
    log: Log,
    partition: int,
    first: int,
    count: int,
    rounds: int,
    value_bytes: int,
    sends: list[Rows],
    reads: list[Rows],
) -> None:
    """Batches [first, first + count) of a partition: producers take turns."""
    plan = _plan(partition, np.arange(first, first + count))
    within = np.tile(np.arange(BATCH), count)
    row = np.repeat(np.arange(count), BATCH)
    offset = plan[row, bk.BASE_OFFSET] + within
    key = (offset * 7919 % 10_000) * PARTITIONS + partition
    out = np.empty(count * BATCH * (value_bytes + 40) + count * 100, np.uint8)
    size = bk.write_batches(plan, count, RUN, value_bytes, key, out)
    log.append(out.data[:size], plan)
    producer = plan[row, bk.PRODUCER]
    intended_ns = plan[row, bk.FIRST_NS] + within * STEP_NS
    jitter_ns = _jitter(offset)
    same = {
        "seq": plan[row, bk.FIRST_SEQ] + within,
        "partition_seq": plan[row, bk.FIRST_PARTITION_SEQ] + within,
        "topic": TOPIC,
        "partition": partition,
        "offset": offset,
        "timestamp_ms": intended_ns // 1_000_000,
        "key": key,
        "intended_ns": intended_ns,
        "header_sum": 0,
    }
    _add_sent(same, producer, intended_ns + ACK_NS + jitter_ns, sends)
    seen_ns = intended_ns + SEEN_NS + jitter_ns
    _add_seen(same, producer, partition * rounds * BATCH + offset, seen_ns, reads)


def _plan(partition: int, number: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rows of batches by their numbers."""
    count, turn = len(number), number // PRODUCERS
    plan = np.zeros((count, bk.WORDS), np.int64)
    plan[:, bk.BASE_OFFSET] = number * BATCH
    plan[:, bk.PRODUCER] = number % PRODUCERS
    plan[:, bk.COUNT] = BATCH
    plan[:, bk.FIRST_PARTITION_SEQ] = turn * BATCH
    plan[:, bk.FIRST_SEQ] = (turn * PARTITIONS + partition) * BATCH
    plan[:, bk.FIRST_NS] = FIRST_NS + (number * PARTITIONS + partition) * BATCH * STEP_NS
    plan[:, bk.STEP_NS] = STEP_NS
    return plan


def _jitter(offset: NDArray[np.int64]) -> NDArray[np.int64]:
    """Nanoseconds by which an answer differs from the others."""
    return (offset * 2_654_435_761 % 1024) * 1000


def _add_sent(
    same: dict[str, Any], producers: NDArray[np.int64], acked_ns: NDArray[np.int64], sends: list[Rows]
) -> None:
    """The notes of each producer about its records."""
    sent = {
        "status": 0,
        "error": 0,
        "transaction": -1,
        "sent_ns": same["intended_ns"] + 1000,
        "acked_ns": acked_ns,
        "tombstone": False,
    }
    for producer in range(PRODUCERS):
        own = producers == producer
        if own.any():
            both = same | sent | {"producer": producer}
            sends[producer].add({n: v[own] if isinstance(v, np.ndarray) else v for n, v in both.items()})


def _add_seen(
    same: dict[str, Any],
    producers: NDArray[np.int64],
    position: NDArray[np.int64],
    seen_ns: NDArray[np.int64],
    reads: list[Rows],
) -> None:
    """The notes of each consumer about the records."""
    seen = {
        "position": position,
        "producer": producers,
        "flags": 0,
        "intact": True,
        "seen_ns": seen_ns,
    }
    for consumer, rows in enumerate(reads):
        rows.add(same | seen | {"consumer": consumer, "assignment": -1 if consumer else 0})


def describe(run: Path, records: int, ends: dict[str, PartitionEnds]) -> None:
    """run.json, clients and the small histories."""
    read_ns = FIRST_NS + records * STEP_NS + 2 * SEEN_NS
    until = read_ns + SEEN_NS
    for producer in range(PRODUCERS):
        client = ProducerClient(producer, TOPIC, "all", True, None, "none", VALUE_BYTES, 1, FIRST_NS, until)
        save_client(run, history.writer_name("producer", producer), client)
        (run / "intents").mkdir(exist_ok=True)
        (run / "intents" / f"p{producer:06d}.jsonl").write_text(
            f'{{"producer": {producer}, "first_seq": 0, "last_seq": {records}, "at_ns": {FIRST_NS}}}\n'
        )
    group = ConsumerClient(0, GROUP, "load", [TOPIC], "read_committed", "earliest", 1, FIRST_NS, until)
    drain = ConsumerClient(
        1, None, "drain", [TOPIC], "read_uncommitted", "earliest", 1, FIRST_NS, until, True
    )
    save_client(run, "c000000", group)
    save_client(run, "c000001", drain)
    rows = {
        "consumer": 0,
        "group": GROUP,
        "assignment": 0,
        "event": 0,
        "topic": TOPIC,
        "start_offset": -1001,
        "at_ns": FIRST_NS,
    }
    given = [rows | {"partition": partition} for partition in range(PARTITIONS)]
    read_to = {partition: end.high_watermark for partition, end in ends.items()}
    times = {"asked_ns": read_ns, "answered_ns": read_ns + ACK_NS, "transaction": -1, "producer": -1}
    who = {name: rows[name] for name in ("consumer", "group", "assignment", "topic")} | times | {"error": 0}
    committed = [
        who | {"partition": int(partition), "offset": offset} for partition, offset in read_to.items()
    ]
    for kind, found in (("assignments", given), ("commits", committed)):
        (run / kind).mkdir()
        table = pa.Table.from_pylist(found, history.KINDS[kind])
        pq.write_table(table, run / kind / "c000000-0000.parquet")
    content = Run(RUN, 1, "", "kbroker", FIRST_NS, {}, [Topic(TOPIC, PARTITIONS, "idempotent")])
    content.ended_ns, content.drained, content.ends = until, True, {TOPIC: ends}
    content.committed = {GROUP: {TOPIC: read_to}}
    save_run(run, content)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--value-bytes", type=int, default=VALUE_BYTES)
    chosen = parser.parse_args()
    make(chosen.folder, chosen.records, chosen.value_bytes)


if __name__ == "__main__":
    main()

"""The judge's reader against Apache Kafka's DumpLogSegments, on random segments: every batch and
every record.

KBROKER_LOGS says on how many; `make judge-reader` takes 1,000.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spark_validation.segments import layout
from spark_validation.segments import record_kernels as rk
from spark_validation.segments.decode import check_records
from spark_validation.segments.decoder import decode_batches
from spark_validation.segments.headers import varint
from spark_validation.segments.layout import Fault
from spark_validation.segments.ranges import Piece
from spark_validation.segments.walk import chunks
from tests.peer.tools import run_tool
from tests.spark_validation.random_logs import CODECS, Writer

pytestmark = pytest.mark.kafka

LOGS = int(os.environ.get("KBROKER_LOGS", "60"))
SEED = int(os.environ.get("KBROKER_LOGS_SEED", "1"))
AT_ONCE = 250  # files of a run of the tool
TOOL = "org.apache.kafka.tools.DumpLogSegments"
FLIPPED_EVERY = 10
BATCH = re.compile(
    r"baseOffset: (?P<base>\d+) lastOffset: (?P<last>\d+) count: (?P<count>\d+) baseSequence: (?P<sequence>-?\d+) "
    r"lastSequence: -?\d+ producerId: (?P<producer>-?\d+) producerEpoch: (?P<epoch>-?\d+) "
    r"partitionLeaderEpoch: (?P<leader>-?\d+) isTransactional: (?P<transactional>\w+) isControl: (?P<control>\w+) "
    r"deleteHorizonMs: (?P<horizon>\S+) position: (?P<position>\d+) (?P<type>\w+): (?P<time>\d+) size: (?P<size>\d+) "
    r"magic: 2 compresscodec: (?P<codec>\w+) crc: \d+ isvalid: (?P<valid>\w+)"
)
RECORD = re.compile(
    r"\| offset: (?P<offset>\d+) (?P<type>\w+): (?P<time>\d+) keySize: (?P<key_size>-?\d+) "
    r"valueSize: (?P<value_size>-?\d+) sequence: (?P<sequence>-?\d+) headerKeys: \[(?P<names>[^\]]*)\](?P<rest>.*)"
)
MARKERS = {"COMMIT": 1, "ABORT": 0}


def written(folder: Path) -> list[Path]:
    """The segments, each in a folder of its own."""
    paths = []
    for number in range(LOGS):
        writer = Writer(SEED * 1_000_000 + number)
        home = folder / f"t-{number}"
        home.mkdir()
        paths.append(home / f"{writer.offset:020d}.log")
        paths[-1].write_bytes(writer.segment())
    return paths


def dumped(paths: list[Path], *options: str) -> Iterator[tuple[Path, list[str]]]:
    """What the tool says of each file, line by line."""
    for some in portions(paths):
        out = run_tool(TOOL, "--files", ",".join(map(str, some)), *options, timeout_s=1200).stdout
        parts = re.split(r"^Dumping (\S+)$", out, flags=re.MULTILINE)[1:]
        for name, lines in zip(parts[::2], parts[1::2], strict=True):
            yield Path(name), lines.splitlines()


def portions(paths: list[Path]) -> Iterator[list[Path]]:
    for at in range(0, len(paths), AT_ONCE):
        yield paths[at : at + AT_ONCE]


def batches_of_dump(lines: list[str]) -> list[tuple[Any, ...]]:
    found = [match for line in lines if (match := BATCH.match(line))]
    names = ("base", "last", "count", "sequence", "producer", "epoch", "leader", "position", "time", "size")
    return [
        (
            *(int(match[name]) for name in names),
            match["transactional"] == "true",
            match["control"] == "true",
            match["horizon"] != "OptionalLong.empty",
            match["type"],
            match["codec"],
            match["valid"] == "true",
        )
        for match in found
    ]


def records_of_dump(lines: list[str]) -> list[tuple[Any, ...]]:
    found = []
    for line in lines:
        match = RECORD.match(line)
        if match is None:
            assert not line.startswith("|"), line
            continue
        rest = match["rest"]
        marker = re.search(r"endTxnMarker: (\w+)", rest)
        sizes = int(match["key_size"]), int(match["value_size"])
        content: object = MARKERS[marker[1]] if marker else rest.strip()
        names = match["names"].split(",") if match["names"] else []
        found.append(
            (
                int(match["offset"]),
                match["type"],
                int(match["time"]),
                sizes,
                int(match["sequence"]),
                names,
                content,
            )
        )
    return found


def type_of(attributes: int) -> str:
    return "LogAppendTime" if attributes & layout.LOG_APPEND_TIME else "CreateTime"


def read(path: Path) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Batches and records in the tool's terms."""
    batches: list[tuple[Any, ...]] = []
    records: list[tuple[Any, ...]] = []
    piece = Piece(int(path.stem), 0, path.stat().st_size, True)
    for chunk in chunks(str(path.parent), (piece,), True):
        check_records(chunk)
        columns = (
            *(layout.BASE_OFFSET, layout.LAST_OFFSET, layout.RECORD_COUNT, layout.BASE_SEQUENCE),
            *(layout.PRODUCER_ID, layout.PRODUCER_EPOCH, layout.LEADER_EPOCH, layout.POSITION),
            *(layout.MAX_TIMESTAMP, layout.SIZE),
        )
        for row in chunk.rows.tolist():
            bits = row[layout.ATTRIBUTES]
            batches.append(
                (
                    *(row[column] for column in columns),
                    bool(bits & layout.TRANSACTIONAL),
                    bool(bits & layout.CONTROL),
                    bool(bits & layout.DELETE_HORIZON),
                    type_of(bits),
                    CODECS[bits & layout.CODEC_MASK],
                    row[layout.FAULT] == Fault.SOUND,
                )
            )
        count = int(chunk.rows[:, layout.RECORD_COUNT].sum())
        out = np.empty((count, rk.RECORD_COLUMNS), np.int64)
        data, _, made = decode_batches(chunk, np.arange(len(chunk.rows)), out)
        records += [described(chunk.rows[row[rk.BATCH]], row, data.data) for row in out[:made]]
    return batches, records


def described(batch: Any, row: Any, data: memoryview) -> tuple[Any, ...]:
    bits = int(batch[layout.ATTRIBUTES])
    first = int(batch[layout.BASE_SEQUENCE])
    sequence = -1 if first < 0 else (first + int(row[rk.OFFSET] - batch[layout.BASE_OFFSET])) & 0x7FFFFFFF
    texts = []
    for name, at in (("key", rk.KEY_AT), ("payload", rk.VALUE_AT)):
        begin, size = int(row[at]), int(row[at + 1])
        if size >= 0:
            texts.append(f"{name}: {bytes(data[begin : begin + size]).decode(errors='replace')}")
    names, at = [], int(row[rk.HEADERS_AT])
    count, at = varint(data, at)
    for _ in range(count):
        size, at = varint(data, at)
        names.append(bytes(data[at : at + size]).decode())
        value_size, at = varint(data, at + size)
        at += max(value_size, 0)
    assert at == row[rk.HEADERS_AT] + row[rk.HEADERS_SIZE]
    content: object = " ".join(texts).strip()
    if bits & layout.CONTROL:
        content = int(batch[layout.CONTROL_TYPE])
    sizes = int(row[rk.KEY_SIZE]), int(row[rk.VALUE_SIZE])
    return int(row[rk.OFFSET]), type_of(bits), int(row[rk.TIMESTAMP]), sizes, sequence, names, content


@pytest.mark.usefixtures("kafka_jars")
def test_batches_and_records_are_those_that_kafka_reads(tmp_path: Path) -> None:
    seen = 0
    for path, lines in dumped(written(tmp_path), "--print-data-log", "--deep-iteration"):
        batches, records = read(path)
        assert batches == batches_of_dump(lines), path
        assert records == records_of_dump(lines), path
        seen += len(records)
    assert seen > 100 * LOGS


@pytest.mark.usefixtures("kafka_jars")
def test_a_flipped_byte_is_found_where_kafka_finds_it(tmp_path: Path) -> None:
    paths = written(tmp_path)[::FLIPPED_EVERY]
    for number, path in enumerate(paths):
        data = bytearray(path.read_bytes())
        position = 61 + number % (int.from_bytes(data[8:12]) + 12 - 61)
        data[position] ^= 1 << number % 8
        path.write_bytes(data)
    for path, lines in dumped(paths):
        piece = Piece(int(path.stem), 0, path.stat().st_size, True)
        rows = [row for chunk in chunks(str(path.parent), (piece,), True) for row in chunk.rows]
        sound = [row[layout.FAULT] == Fault.SOUND for row in rows]
        assert sound == [reported[-1] for reported in batches_of_dump(lines)], path
        assert not sound[0]

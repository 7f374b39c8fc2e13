"""Apache Kafka's DumpLogSegments finds no error in the files of a partition."""

import random
import re
from pathlib import Path

import pytest

from kbroker.io.files.producer_snapshot import ProducerEntry
from kbroker.protocol.compression import Codec
from kbroker.protocol.records import build_batch
from tests.io.append.plain_append import NOW, Log, topic_config
from tests.log.batch_bytes import end_marker
from tests.peer.tools import run_tool

pytestmark = pytest.mark.kafka
TOOL = "org.apache.kafka.tools.DumpLogSegments"


def dump(folder: Path, *options: str) -> str:
    """What the tool says of all files. It reports every fault on stderr, and that a segment does
    not begin at 0."""
    suffixes = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
    names = sorted(str(path) for path in folder.iterdir() if path.suffix in suffixes)
    done = run_tool(TOOL, *options, "--files", ",".join(names))
    base = r"(?:Non-consecutive offsets in \S*?(\d{20})\.log\n  -1 is followed by 0*(\d+)\n)"
    assert re.sub(base, lambda found: "" if int(found[1]) == int(found[2]) else found[0], done.stderr) == ""
    return done.stdout


def filled(root: Path, **overrides: object) -> Log:
    """Several segments of batches of all codecs and sizes, out-of-order timestamps, transactions of
    two producers."""
    chance = random.Random(5)
    log = Log(root, topic_config(**{"segment_bytes": 20000, "index_interval_bytes": 700, **overrides}))
    log.open(epoch=2)
    sequence = {100: 0, 200: 0}
    for n in range(150):
        count = chance.randint(1, 20)
        records = [
            (
                b"key%d" % n,
                chance.randbytes(chance.randint(0, 120)),
                (("h", b"v"),),
                NOW + chance.randint(0, 500),
            )
            for _ in range(count)
        ]
        producer = chance.choice([None, 100, 200])
        identity = (-1, -1, -1) if producer is None else (producer, 3, sequence[producer])
        log.append(
            build_batch(records, producer=identity, codec=Codec(n % 5), transactional=producer is not None)
        )
        if producer is not None:
            sequence[producer] += count
            if n % 10 == 0:
                log.append(end_marker(0, producer, 3, commit=n % 20 == 0, timestamp=NOW + n))
    assert len(log.partition.base_offsets) > 3
    return log


@pytest.mark.parametrize("stop", ["clean", "recovered", "truncated"])
def test_the_tool_accepts_logs_and_indexes(kafka_jars: str, tmp_path: Path, stop: str) -> None:
    log = filled(tmp_path)
    if stop == "recovered":
        log.reopen(clean=False, epoch=2)
    elif stop == "truncated":
        log.partition.truncate_to(log.partition.log_end * 2 // 3, NOW)
    end = log.partition.log_end
    log.partition.close()
    reported = dump(log.folder, "--deep-iteration")
    lasts = [int(found) for found in re.findall(r"^\| offset: (\d+)", reported, re.MULTILINE)]
    assert lasts[-1] == end - 1 if stop != "truncated" else lasts[-1] < end
    assert len(re.findall(r"isvalid: true", reported)) == reported.count("baseOffset:") > 50
    assert "isvalid: false" not in reported
    assert len(re.findall(r"^offset: \d+ position: \d+", reported, re.MULTILINE)) > 20
    checked = dump(log.folder, "--index-sanity-check")
    assert checked.count("passed sanity check") == len(log.partition.base_offsets) * 2
    assert dump(log.folder, "--verify-index-only")


def test_the_tool_reads_snapshots_and_aborted_transactions(kafka_jars: str, tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.reopen(clean=False, epoch=2)
    entries = log.producers.entries(3)
    assert all(len(entry.batches) > 1 for entry in entries)  # of which the tool knows the last ones
    log.partition.close()
    reported = dump(log.folder)
    last = reported[reported.index(f"{log.partition.log_end:020d}.snapshot") :].splitlines()[1:3]
    assert last == [line_of(entry) for entry in entries]
    assert (
        len(re.findall(r"version: 0 producerId: (?:100|200) firstOffset: \d+ lastOffset: \d+", reported)) >= 3
    )


def line_of(entry: ProducerEntry) -> str:
    """How the tool prints a producer."""
    batch, first = entry.batches[-1], entry.current_txn_first_offset
    return (
        f"producerId: {entry.producer_id} producerEpoch: {entry.producer_epoch} "
        f"coordinatorEpoch: {entry.coordinator_epoch} currentTxnFirstOffset: "
        f"{f'OptionalLong[{first}]' if first >= 0 else 'OptionalLong.empty'} "
        f"lastTimestamp: {entry.last_timestamp} firstSequence: {batch.base_sequence} lastSequence: "
        f"{batch.last_sequence} lastOffset: {batch.last_offset} offsetDelta: {batch.offset_delta} timestamp: "
        f"{entry.last_timestamp}"
    )

"""Files are shown as Apache Kafka's DumpLogSegments shows them, and damage is found."""

import json
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kbroker.cli.log_dump import _print_items
from kbroker.io.files.producer_snapshot import BatchMetadata, ProducerEntry
from kbroker.protocol.compression import Codec
from kbroker.protocol.records import ControlType, build_batch, build_control_batch
from tests.cli.conftest import Shell, Target, offered
from tests.io.files.snapshot_bytes import encode
from tests.peer.tools import dump_log

NAME = "0" * 20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A partition folder: two plain batches, a transaction with its marker, both indexes."""
    folder = tmp_path / "orders-0"
    folder.mkdir()
    first = build_batch([(b"k", b"v", [("h", b"1")], 1000), (None, None, (), 3000)], codec=Codec.ZSTD)
    second = build_batch(
        [(b"x", b"y", (), 2000)],
        base_offset=2,
        producer=(7, 1, 5),
        transactional=True,
        partition_leader_epoch=3,
    )
    marker = build_control_batch(
        ControlType.ABORT,
        producer_id=7,
        producer_epoch=1,
        coordinator_epoch=2,
        timestamp_ms=4000,
        base_offset=3,
    )
    (folder / f"{NAME}.log").write_bytes(first + second + marker)
    (folder / f"{NAME}.index").write_bytes(struct.pack(">ii", 2, len(first)) + bytes(80))
    (folder / f"{NAME}.timeindex").write_bytes(struct.pack(">qi", 3000, 1) + bytes(120))
    (folder / f"{NAME}.txnindex").write_bytes(struct.pack(">hqqqq", 0, 7, 2, 3, 4))
    entry = ProducerEntry(7, 1, 2, 4000, -1, (BatchMetadata(5, 5, 2, 2, 4000),))
    (folder / f"{4:020d}.snapshot").write_bytes(encode([entry]))
    (folder / "leader-epoch-checkpoint").write_text("0\n1\n3 2\n")
    (folder / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    return folder


def items(shell: Shell, *arguments: object, code: int = 0) -> list[dict[str, object]]:
    return [json.loads(line) for line in shell("log", "dump", *arguments, "--json", code=code).lines]


@pytest.mark.parametrize("text", ["\n", "garbage", "0\n", "0\nmany\n"])
@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "recovery-point-offset-checkpoint"])
def test_a_file_that_is_no_checkpoint_is_a_problem(
    shell: Shell, tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text)
    found = shell("log", "dump", tmp_path / name, code=1).stderr
    assert f"{name}: not a checkpoint: it begins with its version and the number of its lines" in found


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("leader-epoch-checkpoint", "1 2 3"),
        ("leader-epoch-checkpoint", "one 2"),
        ("cleaner-offset-checkpoint", "orders 0"),
        ("cleaner-offset-checkpoint", "orders 0 x"),
    ],
)
def test_a_line_that_is_none_of_a_checkpoint_is_shown(
    shell: Shell, tmp_path: Path, name: str, line: str
) -> None:
    (tmp_path / name).write_text(f"0\n1\n{line}\n")
    found = shell("log", "dump", tmp_path / name, code=1).stderr
    assert f"{name}: not a line of a checkpoint: {line!r}\n" in found


def test_an_empty_checkpoint_has_no_entries(shell: Shell, folder: Path) -> None:
    """Apache Kafka makes the files before it has anything to write to them."""
    for name in ("leader-epoch-checkpoint", "cleaner-offset-checkpoint"):
        (folder / name).write_text("")
    found = items(shell, folder)
    assert {"epoch", "checkpoint", "problem"}.isdisjoint(item["type"] for item in found)


def test_a_folder_is_shown_with_everything_in_it(shell: Shell, folder: Path) -> None:
    found = items(shell, folder, "--print-data-log")
    kinds = [item["type"] for item in found]
    assert kinds.count("batch") == 3
    records = [item for item in found if item["type"] == "record"]
    assert [(r["offset"], r["timestamp"]) for r in records] == [(0, 1000), (1, 3000), (2, 2000), (3, 4000)]
    assert (records[0]["key"], records[0]["payload"], records[0]["headers"]) == ("k", "v", [["h", "1"]])
    assert (records[1]["key"], records[1]["valueSize"]) == (None, -1)
    assert (records[3]["endTxnMarker"], records[3]["coordinatorEpoch"]) == ("ABORT", 2)
    batch = next(item for item in found if item["type"] == "batch" and item["baseOffset"] == 2)
    assert (batch["producerId"], batch["baseSequence"], batch["partitionLeaderEpoch"]) == (7, 5, 3)
    assert batch["isTransactional"] is True
    by_kind = {str(item["type"]): item for item in found}
    assert (by_kind["index"]["offset"], by_kind["timeindex"]["timestamp"]) == (2, 3000)
    assert (by_kind["txnindex"]["firstOffset"], by_kind["txnindex"]["lastStableOffset"]) == (2, 4)
    assert (by_kind["producer"]["lastSequence"], by_kind["producer"]["currentTxnFirstOffset"]) == (5, None)
    assert (by_kind["epoch"]["epoch"], by_kind["epoch"]["startOffset"]) == (3, 2)
    assert by_kind["property"]["value"] == "AAAAAAAAAAAAAAAAAAAAAQ"


def test_records_are_shown_only_on_request(shell: Shell, folder: Path) -> None:
    log = folder / f"{NAME}.log"
    assert "| offset" not in shell("log", "dump", log).text
    deep = shell("log", "dump", log, "--deep").text
    assert "| offset: 0 CreateTime: 1000 keySize: 1 valueSize: 1 sequence: -1 headerKeys: [h]\n" in deep
    assert "payload: v" in shell("log", "dump", log, "--print-data-log").text
    for option, shown in (("--deep", 0), ("--print-data-log", 2)):
        records = [item for item in items(shell, log, option) if item["type"] == "record"]
        assert [len(item.keys() & {"key", "payload"}) for item in records[:3]] == [shown] * 3


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_record_controls_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    """As with `kbroker consume`; elsewhere it is unchanged, as by Apache Kafka's tool."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    item = {"type": "record", "offset": 5, "key": "k\x1b[2J", "payload": "v\n| offset: 6\t."}
    assert _print_items([item], "file", json_lines=False, contents=True) == 0
    shown = r"| offset: 5 key: k\x1b[2J payload: v\n| offset: 6" + "\t.\n"
    plain = "| offset: 5 key: k\x1b[2J payload: v\n| offset: 6\t.\n"
    assert capsys.readouterr().out == (shown if is_terminal else plain)


def test_a_flipped_byte_is_found(shell: Shell, folder: Path) -> None:
    log = folder / f"{NAME}.log"
    data = bytearray(log.read_bytes())
    data[-3] ^= 1
    log.write_bytes(data)
    done = shell("log", "dump", log, "--print-data-log", code=1)
    assert "isvalid: false" in done.text
    assert "CRC of the batch at offset 3 does not match" in done.stderr
    assert done.stderr.endswith("1 problem found\n")


def test_a_torn_tail_is_found_and_preallocated_zeros_are_none(shell: Shell, folder: Path) -> None:
    log = folder / f"{NAME}.log"
    whole = log.read_bytes()
    log.write_bytes(whole + bytes(4096))
    assert items(shell, log)[-1] == {"file": str(log), "type": "preallocated", "bytes": 4096}
    log.write_bytes(whole[:-10])
    last = items(shell, log, code=1)[-1]
    assert "invalid bytes at the end" in str(last["problem"])
    log.write_bytes(whole + b"\1")
    assert "1 invalid byte at the end" in str(items(shell, log, code=1)[-1]["problem"])
    log.write_bytes(whole + b"garbage" * 20)
    assert "problem" in items(shell, log, code=1)[-1]


@pytest.mark.parametrize(
    ("suffix", "content", "said"),
    [
        ("index", struct.pack(">ii", 1, 0) + struct.pack(">ii", 2, 5), "no batch starts at position 5"),
        ("index", struct.pack(">ii", 3, 0), "the batch there ends with 1"),
        ("timeindex", struct.pack(">qi", 999, 1), "the batch's largest is 3000"),
        ("timeindex", struct.pack(">qiqi", 3000, 1, 2000, 2), "timestamp 2000 follows 3000"),
        ("timeindex", struct.pack(">qi", 1, 9), "no batch ends with offset 9"),
        ("snapshot", b"\0\1" + bytes(20), "CRC"),
        ("txnindex", struct.pack(">hqqqq", 9, 7, 2, 3, 4), "version 9"),
    ],
)
def test_a_file_that_contradicts_the_log_is_reported(
    shell: Shell, folder: Path, suffix: str, content: bytes, said: str
) -> None:
    file = folder / f"{NAME}.{suffix}"
    file.write_bytes(content)
    assert said in shell("log", "dump", file, code=1).stderr


def test_an_empty_index_is_reported_as_empty(shell: Shell, folder: Path) -> None:
    index = folder / f"{NAME}.index"
    index.write_bytes(bytes(800))
    assert shell("log", "dump", index).text == f"Dumping {index}\n{index} is empty.\n"


def test_other_files_and_empty_folders_are_usage_errors(shell: Shell, tmp_path: Path) -> None:
    stray = tmp_path / "notes.txt"
    stray.write_text("x")
    assert "not a file of a log directory" in shell("log", "dump", stray, code=2).stderr
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "no file of a log" in shell("log", "dump", empty, code=2).stderr
    (empty / "run.log").write_text("a log of some program")
    assert "no file of a log" in shell("log", "dump", empty, code=2).stderr
    (error,) = shell("log", "dump", empty / "run.log", code=1).stderr.splitlines()[:1]
    assert error.count("run.log") == 1
    assert "no such file or folder" in shell("log", "dump", tmp_path / "gone", code=2).stderr


@pytest.fixture
def written(cli: Shell, topic: str, group: str, target: Target) -> Path:
    """Folder of partition 0 with several segments: every codec, keys, headers, nulls,
    transactions."""
    cli("topics", "alter", topic, "-c", "segment.bytes=1048576", "-c", "index.interval.bytes=200")
    filler = b"".join(b"k%d:%s\n" % (n, b"x" * 400) for n in range(500))
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        options = ("-p", 0, "-K", ":", "-z", codec, "-H", "codec=" + codec, "-X", "batch.size=4000", "-q")
        cli("produce", topic, *options, stdin=filler)
    cli("produce", topic, "-p", 0, "-q", stdin=b"".join(b"%s\n" % (b"y" * 900) for _ in range(1500)))
    if target.name == "kafka" or _has_transactions(cli):
        producer = Producer({"bootstrap.servers": target.bootstrap, "transactional.id": f"txn-{group}"})
        producer.init_transactions(120)
        for finish in (producer.commit_transaction, producer.abort_transaction):
            producer.begin_transaction()
            producer.produce(topic, "in a transaction", partition=0)
            producer.flush(60)
            finish(60)
    cli("produce", topic, "-p", 0, "-q", stdin=b"".join(b"%s\n" % (b"z" * 900) for _ in range(1500)))
    return target.log_dir / f"{topic}-0"


def _has_transactions(cli: Shell) -> bool:
    return "EndTxn" in {row["api"] for row in cli("cluster", "api-versions", "--json").json}


def ours(cli: Shell, *files: Path) -> list[str]:
    return cli("log", "dump", *files, "--print-data-log").lines


def closed(folder: Path, suffix: str) -> Iterator[Path]:
    """Files of segments that are no longer written."""
    return iter(sorted(folder.glob(f"*{suffix}"))[:-1])


def test_the_output_is_that_of_apache_kafkas_tool(cli: Shell, written: Path, kafka_jars: str) -> None:
    logs = sorted(written.glob("*.log"))
    assert len(logs) >= 3
    indexes = [*closed(written, ".index"), *closed(written, ".timeindex")]
    files = [*logs, *indexes, *sorted(written.glob("*.snapshot")), *sorted(written.glob("*.txnindex"))]
    theirs = dump_log(*files).splitlines()
    found = [line for line in ours(cli, *files) if "preallocated bytes" not in line]
    assert found == theirs
    assert sum(line.startswith("offset: ") for line in found) > 20, "index entries were compared"


def test_commits_of_groups_are_taken_apart(cli: Shell, topic: str, group: str, target: Target) -> None:
    offered(cli, "OffsetCommit")
    cli("produce", topic, "-p", 2, "-q", stdin=b"a\nb\n")
    cli("consume", topic, "-g", group, "--from-beginning", "-e", "-q")
    folders = [folder for folder in target.log_dir.glob("__consumer_offsets-*") if any(folder.glob("*.log"))]
    logs = [log for folder in folders for log in folder.glob("*.log")]
    found = [
        item for item in items(cli, *logs, "--print-data-log") if item.get("recordType") == "OffsetCommit"
    ]
    keys = [item["key"] for item in found]
    assert {"group": group, "topic": topic, "partition": 2} in keys
    (commit,) = [i["payload"] for i in found if i["key"] == {"group": group, "topic": topic, "partition": 2}][
        -1:
    ]
    assert commit["offset"] == 2  # type: ignore[index]
    plain = items(cli, *logs, "--print-data-log", "--no-decode")
    assert not [item for item in plain if "recordType" in item]

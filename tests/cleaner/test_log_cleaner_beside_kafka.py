"""Apache Kafka's DumpLogSegments finds no error in compacted logs, except for their gaps."""

import re
from pathlib import Path

import pytest

from kbroker.protocol.compression import Codec
from tests.cleaner.compacted import DAY, Compacted
from tests.peer.tools import run_tool

pytestmark = pytest.mark.kafka
TOOL = "org.apache.kafka.tools.DumpLogSegments"
GAPS = re.compile(r"Non-consecutive offsets in \S+\.log\n(?:  -?\d+ is followed by \d+\n)+")


def dump(folder: Path, *options: str) -> str:
    """What the tool says of all files; on stderr it may only name gaps."""
    suffixes = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
    names = sorted(str(path) for path in folder.iterdir() if path.suffix in suffixes)
    done = run_tool(TOOL, *options, "--files", ",".join(names))
    assert GAPS.sub("", done.stderr) == ""
    return done.stdout


def test_the_tool_accepts_cleaned_segments_and_indexes(kafka_jars: str, tmp_path: Path) -> None:
    case = Compacted(tmp_path, segment_bytes=6000, index_interval_bytes=300, delete_retention_ms=DAY)
    for turn in range(3):
        for n in range(120):
            producer = (None, 5, 21, 22)[n % 4]
            pairs = [(b"key%d" % (n % 30 + k), None if n % 11 == k else b"%d" % n * 20) for k in range(4)]
            case.append(pairs, Codec(n % 5), producer, transactional=producer in (21, 22))
            if n % 20 == 19:
                case.end(21, commit=n % 40 == 19)
                case.end(22, commit=False)
        case.roll()
        latest = {key: value for key, value in case.latest().items() if value is not None}
        case.clean()
        case.clock += DAY if turn == 1 else 10
        assert {key: value for key, value in case.latest().items() if value is not None} == latest
    end = case.partition.log_end
    case.partition.close()
    reported = dump(case.log.folder, "--deep-iteration")
    lasts = [
        int(found) for found in re.findall(r"^baseOffset: \d+ lastOffset: (\d+)", reported, re.MULTILINE)
    ]
    assert lasts == sorted(set(lasts))
    assert lasts[-1] == end - 1
    assert "isvalid: false" not in reported
    assert len(re.findall(r"isvalid: true", reported)) == reported.count("baseOffset:") > 20
    assert re.search(r"deleteHorizonMs: (OptionalLong\[)?\d{13}", reported)
    assert "Dumping" in reported
    assert ".txnindex" in reported
    checked = dump(case.log.folder, "--index-sanity-check")
    whole = checked.count("passed sanity check") + checked.count("index is empty.")
    assert whole == len(list(case.log.folder.glob("*.log"))) * 2
    assert dump(case.log.folder, "--verify-index-only")

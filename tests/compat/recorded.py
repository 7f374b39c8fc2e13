"""Answers of Apache Kafka to the conversations, as files: kbroker is held against them where no
Java is.

`tests/compat/recorded/NAME.json` holds {script: [[label, answer], ...]}, levelled as Talk levels them. They are written
by the tests beside Apache Kafka (`make record`), which otherwise compare each answer of Apache
Kafka's with them.
"""

import json
import os
import struct
from pathlib import Path
from typing import Any

from kbroker.protocol import batch_layout as rb
from tests.compat.side_by_side import Lines, unlike

FOLDER = Path(__file__).parent / "recorded"
RECORDING = os.environ.get("KBROKER_RECORD") == "1"


def encode(value: Any) -> Any:
    """A levelled answer as JSON has it; bytes become {"hex": ...}."""
    if isinstance(value, bytes | bytearray | memoryview):
        return {"hex": bytes(value).hex()}
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    if isinstance(value, dict):
        return {key: encode(timeless(item) if key == "records" else item) for key, item in value.items()}
    if isinstance(value, int | float | str | None):
        return value
    raise TypeError(f"an answer holds a {type(value).__name__}: {value!r}")


def timeless(records: Any) -> Any:
    """Record batches without what the time of day changes: their timestamps, and the checksum over
    them.

    What is decoded already, or none, stays as it is."""
    if not isinstance(records, bytes | memoryview):
        return records
    found = bytearray(records)
    start = 0
    while start + rb.HEADER_BYTES <= len(found):
        found[start + rb.CRC : start + rb.CRC + 4] = bytes(4)
        found[start + rb.BASE_TIMESTAMP : start + rb.BASE_TIMESTAMP + 16] = bytes(16)
        size = struct.unpack_from(">i", found, start + rb.LENGTH)[0]
        start += size + rb.LENGTH_OVERHEAD
    return bytes(found)


class Recording:
    """The recorded conversations of one file."""

    def __init__(self, name: str) -> None:
        self.path = FOLDER / f"{name}.json"
        self.scripts: dict[str, Any] = json.loads(self.path.read_text()) if self.path.exists() else {}

    def lines(self, script: str) -> Lines:
        """What Apache Kafka answered. Raises KeyError for a script that is not recorded."""
        return [(label, answer) for label, answer in self.scripts[script]]

    def keep(self, script: str, lines: Lines) -> None:
        """Record Apache Kafka's side of a script."""
        self.scripts[script] = encode([list(line) for line in lines])
        FOLDER.mkdir(exist_ok=True)
        text = "".join(
            f"{'{' if not number else ','}{json.dumps(name)}:{json.dumps(self.scripts[name], separators=(',', ':'))}\n"
            for number, name in enumerate(sorted(self.scripts))
        )
        self.path.write_text(text + "}\n")


def encoded(lines: Lines) -> Lines:
    """Lines as they come back from a file: for a comparison with recorded ones."""
    return [(label, encode(answer)) for label, answer in lines]


def compare(recording: Recording, script: str, kafkas: Lines, kbrokers: Lines) -> None:
    """Both brokers gave the same answers to a script, and Apache Kafka those that are recorded."""
    if RECORDING:
        recording.keep(script, kafkas)
    assert not unlike(kafkas, kbrokers)
    assert not unlike(recording.lines(script), encoded(kafkas)), "KBROKER_RECORD=1 records it again"

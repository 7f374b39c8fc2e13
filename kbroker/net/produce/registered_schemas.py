"""The schemas that are registered, as the network process reads them from the topic `_schemas`.

A schema counts from the moment its record is in the log: each check compares the high watermark of
the topic, which is in shared memory, with what has been read, and reads the rest first. So an id
that the registry has answered is known, and an unknown one costs nothing but this comparison. Runs
in: network.
"""

import json
import logging
import re
import threading
from base64 import b64decode
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kbroker.config.topic import SCHEMAS
from kbroker.ipc.layout import Slot, SlotState
from kbroker.ipc.messages import PartitionImage
from kbroker.ipc.schema_rules import Strategy, has_many_values
from kbroker.log.open_files import OpenFiles
from kbroker.log.reader import LogReader
from kbroker.log.walk import walk
from kbroker.net.rows.topic_kernel import read_slot
from kbroker.net.topics import Topics
from kbroker.protocol.compression import TooLong
from kbroker.protocol.records import RecordBatch, read_records, read_varint

log = logging.getLogger(__name__)

OPEN_FILES: Final = 16
BATCH_BYTES: Final = 8 << 20
"""Decompressed; a larger batch is ignored. Clients of topics with schemas wait until all of it is
parsed."""
BATCH_HEADERS: Final = 10_000
"""Maximum of headers of the records of a batch; a batch with more is ignored, too."""
MAX_VALUES: Final = 120_000
"""Maximum of a record's JSON, or a schema's: all clients of the process wait while it is parsed.
The registry takes a schema from a body of 100,000."""
REBUILD_S: Final = 3600.0
"""Time after which the topic is read from its start again, because compaction may have removed
tombstones."""
DEFAULT_CONTEXT = ":.:"
_ESCAPE = re.compile(r"\\[\\\"']")
_COMMENT_OR_STRING = re.compile(r"""//[^\n]*|/\*.*?(?:\*/|\Z)|"[^"\n]*"?|'[^'\n]*'?""", re.DOTALL)
"""A comment or a string. It also matches one without an end, so that a schema is read only once."""
_PACKAGE = re.compile(r"\bpackage\s+([\w.]+)\s*;")
_MESSAGE = re.compile(r"\bmessage\s+(\w+)")


class Unreadable(Exception):
    """The topic cannot be read now; clients may try again."""


class Registered:
    """Ids of the default context. Changed by one thread at a time, read by all."""

    def __init__(self) -> None:
        self._versions: dict[str, dict[int, int]] = {}  # by subject: id of each version
        self._subjects: dict[int, dict[str, int]] = {}  # by id: not deleted versions of each subject
        self._names: dict[int, str | None] = {}  # names of records, by id

    @property
    def is_empty(self) -> bool:
        """Whether no schema is registered."""
        return not self._subjects

    def has(self, schema_id: int, strategy: Strategy, topic: str, part: str) -> bool:
        """Whether the id is registered under its subject. part: key or value."""
        subjects = self._subjects.get(schema_id)
        if subjects is None:
            return False
        if strategy is Strategy.TOPIC_NAME:
            return f"{topic}-{part}" in subjects
        name = self._names.get(schema_id)
        if name is None:
            return False
        return (name if strategy is Strategy.RECORD_NAME else f"{topic}-{name}") in subjects

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """One record of the topic. Records that are no schema or cannot be parsed are ignored."""
        try:
            name = _parsed(key or b"null")
            kind = name["keytype"]
            if kind == "SCHEMA":
                self._schema(_plain(name["subject"]), int(name["version"]), value and _parsed(value))
            elif kind == "DELETE_SUBJECT" and value is not None:
                last = int(_parsed(value)["version"])
                subject = _plain(name["subject"])
                for version in [each for each in self._versions.get(subject, {}) if each <= last]:
                    self._remove(subject, version)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
            log.debug("a record of %s is not understood: %s", SCHEMAS, error)

    def _schema(self, subject: str, version: int, value: Any) -> None:
        found = value and (int(value["id"]), bool(value.get("deleted")), str(value["schema"]))
        self._remove(subject, version)
        if not found or found[1] or subject.startswith(":."):
            return
        schema_id, _, text = found
        if schema_id not in self._names:
            self._names[schema_id] = record_name(str(value.get("schemaType") or "AVRO"), text)
        self._versions.setdefault(subject, {})[version] = schema_id
        subjects = self._subjects.setdefault(schema_id, {})
        subjects[subject] = subjects.get(subject, 0) + 1

    def _remove(self, subject: str, version: int) -> None:
        versions = self._versions.get(subject, {})
        schema_id = versions.pop(version, None)
        if schema_id is None:
            return
        if not versions:
            del self._versions[subject]
        subjects = self._subjects[schema_id]
        subjects[subject] -= 1
        if not subjects[subject]:
            del subjects[subject]
        if not subjects:
            del self._subjects[schema_id], self._names[schema_id]


class RegisteredSchemas:
    """Keeps Registered up to the end of the topic. Owner: ProduceChecks. `at_once` is for its loop,
    `read` for threads."""

    def __init__(self, slots: NDArray[np.int64], topics: Topics, clock: Callable[[], float]) -> None:
        self._slots = slots
        self._topics = topics
        self._clock = clock
        self._lock = threading.Lock()
        self._known = Registered()
        self._read: tuple[int, int] = (-1, 0)  # generation of the partition, next offset
        self._began_at = 0.0

    def at_once(self) -> Registered | None:
        """The registered schemas; None when there are records to read first."""
        part = self._partition()
        if part is None:
            return Registered()
        line = self._slots[part.slot]
        read = self._read
        current = read == (part.generation, int(line[Slot.HIGH_WATERMARK]))
        online = line[Slot.GENERATION] == part.generation and line[Slot.STATE] == SlotState.ONLINE
        return self._known if current and online else None

    def read(self) -> Registered:
        """The registered schemas, after reading to the end of the topic. Raises Unreadable."""
        with self._lock:
            part = self._partition()
            if part is None:
                return Registered()
            words = self._group(part)
            generation, offset = self._read
            end, now = words[Slot.HIGH_WATERMARK], self._clock()
            if (generation, offset) == (part.generation, end):
                return self._known
            if generation != part.generation or offset > end or now - self._began_at > REBUILD_S:
                self._began_at, self._known, offset = now, Registered(), 0
            self._read = (-1, 0)  # until the end is reached
            self._take(part, offset, words)
            self._read = (part.generation, end)
            return self._known

    def _take(self, part: PartitionImage, offset: int, words: list[int]) -> None:
        reader = LogReader(part.folder, OpenFiles(OPEN_FILES))
        try:
            for placed in walk(reader, offset, words[Slot.HW_BASE], words[Slot.HW_POSITION]):
                if not placed.batch.is_control:
                    self._apply(placed.batch, offset)
        except Exception as error:
            raise Unreadable(f"the topic {SCHEMAS} cannot be read: {error}") from error

    def _apply(self, batch: RecordBatch, offset: int) -> None:
        """The records of a batch from an offset on."""
        try:
            for record in read_records(batch, BATCH_BYTES, BATCH_HEADERS):
                if record.offset >= offset:
                    self._known.apply(record.key, record.value)
        except TooLong as error:
            log.warning("the batch at offset %d of %s is ignored: %s", batch.base_offset, SCHEMAS, error)

    def _partition(self) -> PartitionImage | None:
        topic = self._topics.by_name.get(SCHEMAS)
        return topic.partitions[0] if topic is not None and topic.partitions else None

    def _group(self, part: PartitionImage) -> list[int]:
        copy = Slot.row(writer="network")
        whole = read_slot(self._slots[part.slot].ctypes.data, copy)
        words: list[int] = copy.tolist()
        if not whole or words[Slot.GENERATION] != part.generation or words[Slot.STATE] != SlotState.ONLINE:
            raise Unreadable(f"the topic {SCHEMAS} is not there now")
        return words


def _parsed(text: bytes) -> Any:
    """Raises ValueError and RecursionError."""
    if has_many_values(text, MAX_VALUES):
        raise ValueError(f"more than {MAX_VALUES} values")
    return json.loads(text)


def record_name(kind: str, schema: str) -> str | None:
    """The name that strategies use: of the record, of the first message, or the title. Raises
    ValueError or RecursionError for a text that is no schema."""
    if kind == "PROTOBUF":
        return _message_name(schema)
    if has_many_values(schema.encode("utf-8", "replace"), MAX_VALUES):
        return None
    found = json.loads(schema)
    if type(found) is not dict:
        return None
    if kind == "JSON":
        return found.get("title") if type(found.get("title")) is str else None
    name, space = found.get("name"), found.get("namespace")
    if type(name) is not str:
        return None
    return f"{space}.{name}" if type(space) is str and space and "." not in name else name


def _message_name(schema: str) -> str | None:
    try:
        package, message = _descriptor_names(b64decode(schema, validate=True))
    except (ValueError, IndexError):
        text = _COMMENT_OR_STRING.sub(_blank, _ESCAPE.sub(_nothing, schema))
        packages, messages = _PACKAGE.search(text), _MESSAGE.search(text)
        package, message = packages[1] if packages else "", messages[1] if messages else ""
    if not message:
        return None
    return f"{package}.{message}" if package else message


def _nothing(_: re.Match[str]) -> str:
    """A function: other threads wait for all replacements by a text, but only for one by this."""
    return ""


def _blank(_: re.Match[str]) -> str:
    return " "


def _descriptor_names(data: bytes) -> tuple[str, str]:
    """Package and first message of a serialised FileDescriptorProto."""
    package = _field(data, 2) or b""
    message = _field(data, 4) or b""
    return package.decode(), (_field(message, 1) or b"").decode()


def _field(data: bytes, number: int) -> bytes | None:
    """The first field of a number; fields of these messages are bytes or varints."""
    at = 0
    while at < len(data):
        tag, at = _unsigned(data, at)
        value, at = _unsigned(data, at)
        if tag & 7 == 0:
            continue
        if tag & 7 != 2 or at + value > len(data):
            raise ValueError("no descriptor")
        if tag >> 3 == number:
            return data[at : at + value]
        at += value
    return None


def _unsigned(data: bytes, at: int) -> tuple[int, int]:
    zigzag, at = read_varint(data, at)
    return (zigzag << 1) ^ (zigzag >> 63), at


def _plain(subject: Any) -> str:
    """The name of a subject without the default context."""
    return str(subject).removeprefix(DEFAULT_CONTEXT)

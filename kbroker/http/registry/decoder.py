"""Decodes values and keys of schema serializers to JSON, for answers of the console with many
records. Format: a zero byte, the schema's id, the data."""

import json
import logging
import struct
import time
from typing import Any

from kbroker.http.console.caller import Caller
from kbroker.http.registry.compatibility import References, resolve
from kbroker.http.registry.failure import Failure
from kbroker.http.registry.formats.decode import Decode, decoder_of, plain
from kbroker.http.registry.schema_cache import SchemaCache
from kbroker.http.registry.state import State
from kbroker.http.registry.topic import SchemaTopic
from kbroker.http.registry.topic_records import SchemaRow

log = logging.getLogger(__name__)

BUDGET_S = 0.5
"""Time for one answer; later records are shown undecoded."""
MAX_DATA_BYTES = 1 << 20
CONTEXT = "."
_PREFIX = struct.Struct(">BI")
_MAGIC = 0


class SchemaDecoder:
    """Decodes with the schemas of the registry's topic, if the caller may read it. Runs in: http.
    Thread-safe."""

    def __init__(self, topic: SchemaTopic) -> None:
        self._topic = topic
        self._known: SchemaCache[int, tuple[SchemaRow, References, Decode | None]] = SchemaCache()

    def answer(self, caller: Caller) -> "AnswerDecoder":
        """A decoder for the records of one answer."""
        return AnswerDecoder(self, caller)

    def state(self, caller: Caller) -> State | None:
        """The registry's state; None if the caller may not read it, or it cannot be read now."""
        try:
            return self._topic.refresh(caller)
        except Failure:
            return None

    def find(self, state: State, schema_id: int) -> tuple[SchemaRow, Decode] | None:
        """The schema of an id and its decoding function; None if either is missing. Raises Failure
        if a reference is missing, or the compiler is busy: another attempt may succeed."""
        rows = tuple(state.ids.get(CONTEXT, {}).get(schema_id, ()))
        if not rows:
            return None
        row = rows[0]
        references = resolve(state, row.subject, row.references)
        kept = self._known.get(schema_id)
        if kept is None or kept[:2] != (row, references):
            kept = row, references, _made(row, references)
            characters = len(row.schema) + sum(len(text) for _, text in references)
            self._known.put(schema_id, kept, characters)
        decode = kept[2]
        return None if decode is None else (row, decode)


def _made(row: SchemaRow, references: References) -> Decode | None:
    """The decoding function; None for a text that is no such schema. Raises Failure if the compiler
    is busy."""
    try:
        return decoder_of(row.schema_type, row.schema, dict(references))
    except Exception as error:  # whatever a library makes of a text that is no such schema
        if isinstance(error, Failure) and error.is_busy:
            raise
        log.debug("schema %d cannot be used: %s", row.id, error)
        return None


class AnswerDecoder:
    """Owner: one answer. Schemas are requested at the first value that names one."""

    def __init__(self, schemas: SchemaDecoder, caller: Caller) -> None:
        self._schemas = schemas
        self._caller = caller
        self._state: State | None = None
        self._is_read = False
        self._left_s = BUDGET_S

    def __call__(self, data: bytes, cut_at: int) -> tuple[str, bool, dict[str, Any]] | None:
        """JSON of at most cut_at characters, whether it is cut, id and type of the schema; None if
        the data was written without a schema."""
        if not _PREFIX.size <= len(data) <= MAX_DATA_BYTES or data[0] != _MAGIC or self._left_s <= 0:
            return None
        if not self._is_read:
            self._is_read, self._state = True, self._schemas.state(self._caller)
        if self._state is None:
            return None
        began_s = time.monotonic()
        try:
            return self._decoded(self._state, data, cut_at)
        except Exception as error:  # whatever a library makes of bytes that are no such data
            log.debug("a value is not of its schema: %s", error)
            return None
        finally:
            self._left_s -= time.monotonic() - began_s

    def _decoded(self, state: State, data: bytes, cut_at: int) -> tuple[str, bool, dict[str, Any]] | None:
        _, schema_id = _PREFIX.unpack_from(data)
        found = self._schemas.find(state, schema_id)
        if found is None:
            return None
        row, decode = found
        text, cut = _json(decode(data[_PREFIX.size :]), cut_at)
        return text, cut, {"id": schema_id, "type": row.schema_type}


def _json(value: Any, cut_at: int) -> tuple[str, bool]:
    """Written piece by piece: names of fields may be long, and repeated for each item."""
    parts: list[str] = []
    size = 0
    for part in json.JSONEncoder(ensure_ascii=False, default=plain).iterencode(value):
        parts.append(part)
        size += len(part)
        if size > cut_at:
            return "".join(parts)[:cut_at], True
    return "".join(parts), False

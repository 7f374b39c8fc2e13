"""Decodes values and keys of schema serializers to JSON. Format: a zero byte, the schema's id, the
data.

The registry returns schemas and their references; the libraries of `kbroker[registry]` parse and
decode.
"""

import json
import math
import struct
from typing import Any

from kbroker.cli.failures import CommandFailed, UsageFailed
from kbroker.cli.record_format import ConsumedRecord, Decoded
from kbroker.cli.schema_source import Schema, SchemaSource
from kbroker.http.registry.formats import decode
from kbroker.http.registry.formats.decode import Decode

_PREFIX = struct.Struct(">BI")
_MAGIC = 0
MAX_VALUES = 10_000_000
"""Maximum of one Avro datum: more than any record can hold, but not endless."""


class Decoder:
    """Decodes records and caches schemas. Owner: one `consume` command."""

    def __init__(self, source: SchemaSource, *, keys: bool) -> None:
        self._source = source
        self._keys = keys
        self._known: dict[int, Decode] = {}
        self.undecoded = 0

    def __call__(self, record: ConsumedRecord) -> ConsumedRecord:
        """The record with its value (and key, if keys are decoded) as JSON. Raises
        CommandFailed."""
        value = self._field(record, "value", record.value)
        return record._replace(
            value=value, key=self._field(record, "key", record.key) if self._keys else record.key
        )

    def _field(self, record: ConsumedRecord, name: str, content: bytes | None) -> bytes | None:
        if content is None:
            return None
        if len(content) < _PREFIX.size or content[0] != _MAGIC:
            self.undecoded += 1
            return content
        _, schema_id = _PREFIX.unpack_from(content)
        try:
            if schema_id not in self._known:
                self._known[schema_id] = decoder_of(self._source.schema(schema_id))
            found = self._known[schema_id](content[_PREFIX.size :])
            return Decoded(_json(found).encode())
        except CommandFailed as error:
            raise CommandFailed(f"{_place(record)}: {name}: {error.message}", error.code) from None
        except Exception as error:  # any error of a library about invalid data
            raise CommandFailed(
                f"{_place(record)}: {name} does not match schema {schema_id}: {error}"
            ) from error


def decoder_of(schema: Schema) -> Decode:
    """The decoding function of a schema. Raises UsageFailed without the libraries, ValueError for
    an invalid schema."""
    try:
        return decode.decoder_of(schema.type, schema.text, schema.references, MAX_VALUES)
    except decode.UnknownType as unknown:
        raise CommandFailed(str(unknown)) from None
    except ModuleNotFoundError as missing:
        raise UsageFailed(f"{missing.name} is not installed; try: pip install 'kbroker[registry]'") from None


def _json(value: Any) -> str:
    """A document. Numbers that JSON lacks become texts, as in Avro's and Protobuf's own JSON."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, default=decode.plain)
    except ValueError:
        return json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, default=decode.plain)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list) else value


def _place(record: ConsumedRecord) -> str:
    return f"{record.topic}-{record.partition} offset {record.offset}"

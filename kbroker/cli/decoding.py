"""Decodes values and keys of schema serialisers to JSON. Format: a zero byte, the schema's id, the
data.

The registry returns schemas and their references; the libraries of `kbroker[registry]` parse and
decode.
"""

import io
import json
import struct
from collections.abc import Callable, Mapping
from typing import Any

from kbroker.cli.failures import CommandFailed, UsageFailed
from kbroker.cli.record_format import Decoded, Shown
from kbroker.cli.schema_source import Schema, SchemaSource

Decode = Callable[[bytes], Any]
_PREFIX = struct.Struct(">BI")
_MAGIC = 0
_MAX_INDEXES = 100


class Decoder:
    """Decodes records and caches schemas. Owner: one `consume` command."""

    def __init__(self, source: SchemaSource, *, keys: bool) -> None:
        self._source = source
        self._keys = keys
        self._known: dict[int, Decode] = {}
        self.undecoded = 0

    def __call__(self, record: Shown) -> Shown:
        """The record with its value (and key, if keys are decoded) as JSON. Raises
        CommandFailed."""
        value = self._field(record, "value", record.value)
        return record._replace(
            value=value, key=self._field(record, "key", record.key) if self._keys else record.key
        )

    def _field(self, record: Shown, name: str, content: bytes | None) -> bytes | None:
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
            return Decoded(json.dumps(found, ensure_ascii=False, default=_plain).encode())
        except CommandFailed as error:
            raise CommandFailed(f"{_place(record)}: {name}: {error.message}", error.code) from None
        except Exception as error:  # any error of a library about invalid data
            raise CommandFailed(f"{_place(record)}: {name} is not of schema {schema_id}: {error}") from error


def decoder_of(schema: Schema) -> Decode:
    """The decoding function of a schema. Raises UsageFailed without the libraries, ValueError for
    an invalid schema."""
    makers = {"AVRO": _avro, "JSON": _json, "PROTOBUF": _protobuf}
    if schema.type not in makers:
        raise CommandFailed(f"schemas of type {schema.type} are not known here")
    try:
        return makers[schema.type](schema.text, schema.references)
    except ModuleNotFoundError as missing:
        raise UsageFailed(f"{missing.name} is not installed; try: pip install 'kbroker[registry]'") from None


def _json(_text: str, _references: Mapping[str, str]) -> Decode:
    return json.loads


def _avro(text: str, references: Mapping[str, str]) -> Decode:
    from avro.io import BinaryDecoder, DatumReader

    from kbroker.http.registry.formats.avro_format import parse

    reader = DatumReader(parse(text, references).schema)
    return lambda data: reader.read(BinaryDecoder(io.BytesIO(data)))


def _protobuf(text: str, references: Mapping[str, str]) -> Decode:
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.json_format import MessageToDict
    from google.protobuf.message_factory import GetMessageClass

    from kbroker.http.registry.formats.protobuf_format import MAIN, parse, well_known

    pool: Any = DescriptorPool()
    main = parse(text, references).file
    main.name = MAIN
    added: set[str] = set()

    def add(file: Any) -> None:
        if file.name in added:
            return
        added.add(file.name)
        for name in file.dependency:
            known = parse(references[name], references).file if name in references else well_known(name)
            if known is None:
                raise ValueError(f"the schema imports {name}, which the registry does not name")
            known.name = name
            add(known)
        pool.Add(file)

    add(main)

    def decode(data: bytes) -> Any:
        path, start = _message_indexes(data)
        message, names = main.message_type[path[0]], [main.package] if main.package else []
        names.append(message.name)
        for index in path[1:]:
            message = message.nested_type[index]
            names.append(message.name)
        found: Any = GetMessageClass(pool.FindMessageTypeByName(".".join(names)))()
        found.ParseFromString(data[start:])
        return MessageToDict(found, preserving_proto_field_name=True, descriptor_pool=pool)

    return decode


def _message_indexes(data: bytes) -> tuple[list[int], int]:
    """(path to the message in its file, where the message starts). Raises ValueError."""
    count, at = _zigzag(data, 0)
    if not 0 <= count <= _MAX_INDEXES:
        raise ValueError(f"{count} message indexes")
    path = []
    for _ in range(count):
        index, at = _zigzag(data, at)
        path.append(index)
    if any(index < 0 for index in path):
        raise ValueError("a negative message index")
    return path or [0], at


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        if at >= len(data) or shift > 28:
            raise ValueError("no message index")
        number |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return (number >> 1) ^ -(number & 1), at


def _plain(value: Any) -> str:
    """Avro values without a JSON type: bytes as in Avro's JSON encoding; times, decimals and ids as
    text."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _place(record: Shown) -> str:
    return f"{record.topic}-{record.partition} offset {record.offset}"

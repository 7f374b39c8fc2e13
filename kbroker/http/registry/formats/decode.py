"""Data that a serializer wrote with a schema, as Python's values."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from kbroker.http.finite_json import loads
from kbroker.http.registry.deadline import Deadline

Decode = Callable[[bytes], Any]
_MAX_INDEXES = 100
MAX_VALUES = 20_000
"""Maximum of one Avro datum in an answer of the console: reading them takes a tenth of a second."""


MAX_PARSING_S = 5.0
"""Maximum time to parse all files that a Protobuf schema imports."""


class UnknownType(ValueError):
    """No Avro, JSON or Protobuf."""


def decoder_of(
    schema_type: str, text: str, references: Mapping[str, str], max_values: int = MAX_VALUES
) -> Decode:
    """The decoding function of a schema. max_values: of one Avro datum. Raises UnknownType,
    ModuleNotFoundError without the libraries, ValueError and the libraries' errors for a wrong
    schema."""
    makers: dict[str, Callable[[str, Mapping[str, str]], Decode]] = {
        "AVRO": partial(_avro, max_values),
        "JSON": _json,
        "PROTOBUF": _protobuf,
    }
    if schema_type not in makers:
        raise UnknownType(f"schemas of type {schema_type} are not known here")
    return makers[schema_type](text, references)


def _json(_text: str, _references: Mapping[str, str]) -> Decode:
    return lambda data: loads(data.decode())


def _avro(max_values: int, text: str, references: Mapping[str, str]) -> Decode:
    from kbroker.http.registry.formats.avro_reader import reader_of

    return reader_of(text, references, max_values)


def _protobuf(text: str, references: Mapping[str, str]) -> Decode:
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.json_format import MessageToDict
    from google.protobuf.message_factory import GetMessageClass

    from kbroker.http.registry.formats.protobuf_format import MAIN, parse, well_known

    pool: Any = DescriptorPool()
    main = parse(text, references).file
    main.name = MAIN
    added: set[str] = set()
    deadline = Deadline(MAX_PARSING_S)

    def add(file: Any) -> None:
        if file.name in added:
            return
        if deadline.is_over:
            raise ValueError("its references take too long to parse")
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


def plain(value: Any) -> str:
    """Avro's values that JSON has no type for: bytes as in Avro's own JSON, times, decimals and ids
    as text."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return value.isoformat() if hasattr(value, "isoformat") else str(value)

"""The normal text of a .proto file, printed from its descriptor: one layout, no comments.

Messages, fields and values keep their order, because clients count messages. An option of a user's
own, a group, or an edition is not printed: `normal_text` then finds that the text is of another
descriptor."""

from collections.abc import Callable, Iterable
from typing import Any

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    ServiceDescriptorProto,
)

from kbroker.http.registry.formats import MAX_CHARACTERS

_KIND = FieldDescriptorProto
MAX_BYTES = 256 << 10
"""Maximum of a descriptor. Each of its names is in the text."""
_MAX_FIELD, _MAX_VALUE = (1 << 29) - 1, (1 << 31) - 1
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})
_LABELS = {_KIND.LABEL_REPEATED: "repeated ", _KIND.LABEL_REQUIRED: "required "}


def normal_text(
    file: FileDescriptorProto, compiled: Callable[[str], FileDescriptorProto | None]
) -> str | None:
    """The schema's text in normal form; None if it would be long, or does not compile to the same
    descriptor."""
    if file.ByteSize() > MAX_BYTES:
        return None
    text = printed(file)
    again = compiled(text) if len(text) <= MAX_CHARACTERS else None
    return text if again is not None and _comparable(again) == _comparable(file) else None


def _comparable(file: FileDescriptorProto) -> bytes:
    """The content without the file's own name and comments. The types of map entries, which have no
    text, come last."""
    copy = FileDescriptorProto()
    copy.CopyFrom(file)
    for name in ("name", "source_code_info"):
        copy.ClearField(name)
    copy.syntax = file.syntax or "proto2"
    for message in copy.message_type:
        _entries_last(message)
    return copy.SerializeToString(deterministic=True)


def _entries_last(message: DescriptorProto) -> None:
    nested = sorted(
        message.nested_type, key=lambda one: (one.options.map_entry, one.name * one.options.map_entry)
    )
    copies = [DescriptorProto.FromString(one.SerializeToString()) for one in nested]
    del message.nested_type[:]
    message.nested_type.extend(copies)
    for one in message.nested_type:
        _entries_last(one)


def printed(file: FileDescriptorProto) -> str:
    """The text."""
    parts = [f'syntax = "{file.syntax or "proto2"}";']
    parts += [f"package {file.package};"] if file.package else []
    kinds = dict.fromkeys(file.public_dependency, "public ")
    kinds |= dict.fromkeys(file.weak_dependency, "weak ")
    parts += [
        f"import {kinds.get(number, '')}{_quoted(name)};" for number, name in enumerate(file.dependency)
    ]
    parts += _option_lines(file.options)
    proto3 = file.syntax == "proto3"
    scope = f".{file.package}" if file.package else ""
    for message in file.message_type:
        parts += _message(message, scope, proto3)
    for enum in file.enum_type:
        parts += _enum(enum)
    parts += _extensions(file.extension, proto3)
    for service in file.service:
        parts += _service(service)
    return "\n".join(parts) + "\n"


def _message(message: DescriptorProto, scope: str, proto3: bool) -> list[str]:
    own = f"{scope}.{message.name}"
    entries = {f"{own}.{one.name}": one for one in message.nested_type if one.options.map_entry}
    body = _option_lines(message.options)
    body += _ranges("reserved", [(one.start, one.end - 1) for one in message.reserved_range], _MAX_FIELD)
    body += _ranges("extensions", [(one.start, one.end - 1) for one in message.extension_range], _MAX_FIELD)
    body += [f"reserved {_quoted(name)};" for name in message.reserved_name]
    oneofs = _oneofs(message)
    for field in message.field:
        if not _has_oneof(field):
            body.append(_field(field, proto3, entries.get(field.type_name)))
        elif (members := oneofs.pop(field.oneof_index, None)) is not None:
            lines = [_field(one, True, None) for one in members]
            body += _block(f"oneof {message.oneof_decl[field.oneof_index].name}", lines)
    for nested in message.nested_type:
        body += [] if nested.options.map_entry else _message(nested, own, proto3)
    for enum in message.enum_type:
        body += _enum(enum)
    body += _extensions(message.extension, proto3)
    return _block(f"message {message.name}", body)


def _oneofs(message: DescriptorProto) -> dict[int, list[FieldDescriptorProto]]:
    """Fields by their oneof."""
    found: dict[int, list[FieldDescriptorProto]] = {}
    for field in message.field:
        if _has_oneof(field):
            found.setdefault(field.oneof_index, []).append(field)
    return found


def _has_oneof(field: FieldDescriptorProto) -> bool:
    """protoc makes one for an optional field of proto3, which has no text."""
    return field.HasField("oneof_index") and not field.proto3_optional


def _field(field: FieldDescriptorProto, proto3: bool, entry: DescriptorProto | None) -> str:
    """proto3: a field needs no label, as within a oneof. entry: of a map."""
    label = _LABELS.get(field.label, "" if proto3 and not field.proto3_optional else "optional ")
    kind = _type(field)
    if entry is not None:
        key, value = map(_type, entry.field)
        label, kind = "", f"map<{key}, {value}>"
    options = []
    if field.HasField("default_value"):
        options.append(f"default = {_default(field)}")
    if field.HasField("json_name") and field.json_name != _json_name(field.name):
        options.append(f"json_name = {_quoted(field.json_name)}")
    options += _options(field.options)
    extra = f" [{', '.join(options)}]" if options else ""
    return f"{label}{kind} {field.name} = {field.number}{extra};"


def _type(field: FieldDescriptorProto) -> str:
    return field.type_name.removeprefix(".") or _KIND.Type.Name(field.type).removeprefix("TYPE_").lower()


def _default(field: FieldDescriptorProto) -> str:
    """A field's default value as text. The descriptor has bytes escaped already."""
    if field.type == _KIND.TYPE_STRING:
        return _quoted(field.default_value)
    return f'"{field.default_value}"' if field.type == _KIND.TYPE_BYTES else field.default_value


def _json_name(name: str) -> str:
    """protoc's name of a field in JSON."""
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def _enum(enum: EnumDescriptorProto) -> list[str]:
    body = _option_lines(enum.options)
    body += _ranges("reserved", [(one.start, one.end) for one in enum.reserved_range], _MAX_VALUE)
    body += [f"reserved {_quoted(name)};" for name in enum.reserved_name]
    for value in enum.value:
        options = _options(value.options)
        extra = f" [{', '.join(options)}]" if options else ""
        body.append(f"{value.name} = {value.number}{extra};")
    return _block(f"enum {enum.name}", body)


def _extensions(fields: Iterable[FieldDescriptorProto], proto3: bool) -> list[str]:
    lines = []
    for field in fields:
        lines += _block(f"extend {field.extendee.removeprefix('.')}", [_field(field, proto3, None)])
    return lines


def _service(service: ServiceDescriptorProto) -> list[str]:
    body = _option_lines(service.options)
    for method in service.method:
        sent, received = (
            f"{'stream ' if streams else ''}{name.removeprefix('.')}"
            for name, streams in (
                (method.input_type, method.client_streaming),
                (method.output_type, method.server_streaming),
            )
        )
        head, options = f"rpc {method.name} ({sent}) returns ({received})", _option_lines(method.options)
        body += _block(head, options) if options else [f"{head};"]
    return _block(f"service {service.name}", body)


def _block(head: str, body: Iterable[str]) -> list[str]:
    return [f"{head} {{", *(f"  {line}" for line in body), "}"]


def _ranges(word: str, ranges: Iterable[tuple[int, int]], highest: int) -> list[str]:
    """A line for each, with inclusive ends."""
    return [
        f"{word} {first};" if first == last else f"{word} {first} to {'max' if last == highest else last};"
        for first, last in ranges
    ]


def _option_lines(options: Any) -> list[str]:
    return [f"option {one};" for one in _options(options)]


def _options(options: Any) -> list[str]:
    """`name = value` of the options that protoc itself knows and that have one value."""
    return [
        f"{field.name} = {_value(field, value)}"
        for field, value in options.ListFields()
        if not (field.is_extension or field.message_type or hasattr(value, "append"))
        and field.name != "map_entry"
    ]


def _value(field: Any, value: Any) -> str:
    if field.enum_type is not None:
        return str(field.enum_type.values_by_number[value].name)
    if isinstance(value, bool):
        return "true" if value else "false"
    return _quoted(value) if isinstance(value, str) else str(value)


def _quoted(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'

"""Writes the Python source of a decoder for one (struct, version): one unpack per run of fixed
fields.

Lengths of the legacy encoding and first bytes of compact ones join the run before them. The
compiled function is `decode(buf, pos, limit) -> (object, end)`; it may raise struct.error or
IndexError at the end of the buffer, which codec.py turns into ProtocolError.
"""

import struct
from collections.abc import Callable
from typing import Any

from kbroker.protocol.bounds import MAX_STRING_BYTES
from kbroker.protocol.codec_source import CodecSource
from kbroker.protocol.schema import FIXED, Field, ProtocolError, Schema, Struct
from kbroker.protocol.slices import SHORT, SlicedList, paced, yield_slice

MAX_VARINT_BYTES = 5
NUMBERS_AT_ONCE = 1024


def read_uvarint(buf: bytes | memoryview, pos: int) -> tuple[int, int]:
    """Unsigned varint of at most 5 bytes at `pos`: (value, position after it)."""
    value = buf[pos]
    if value < 0x80:
        return value, pos + 1
    value = 0
    for shift in range(0, 7 * MAX_VARINT_BYTES, 7):
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, pos
    raise ProtocolError(f"varint of more than {MAX_VARINT_BYTES} bytes at byte {pos - MAX_VARINT_BYTES}")


def minimum_size(schema: Schema, version: int) -> int:
    """Bytes that the smallest struct of this schema takes."""
    flexible = schema.is_flexible(version)
    size = 1 if flexible else 0
    for field in schema.fields:
        if not field.present(version) or field.is_tagged(version):
            continue
        if field.wire in FIXED:
            size += FIXED[field.wire][1]
        elif flexible and not field.legacy:
            size += 1
        elif field.wire == "struct":
            assert field.item is not None
            size += 1 if field.is_nullable(version) else minimum_size(field.item.SCHEMA, version)
        else:
            size += 2 if field.wire == "string" else 4
    return size


class DecoderSource(CodecSource):
    """Source and names of one decoder. `pending` is the run of fixed fields not yet unpacked.

    sliced: the decoder runs in slices, and gives long lists that are iterated over in slices
    (slices.py)."""

    def __init__(self, cls: type[Struct], version: int, sliced: bool = False) -> None:
        names: dict[str, Any] = {
            "unpack_from": struct.unpack_from,
            "read_uvarint": read_uvarint,
            "ProtocolError": ProtocolError,
        }
        if sliced:
            names |= {"SlicedList": SlicedList, "yield_slice": yield_slice, "paced": paced}
        super().__init__("def decode(buf, pos, limit):", names, cls, version, sliced)
        self.pending: list[tuple[str, int, str]] = []
        self.line(f"return {self.struct(cls)}, pos", flush=True)

    def compile(self) -> Callable[[bytes | memoryview, int, int], tuple[Any, int]]:
        source = "\n".join(self.lines)
        exec(compile(source, f"<decode {self.message}>", "exec"), self.names)
        decode: Callable[[bytes | memoryview, int, int], tuple[Any, int]] = self.names["decode"]
        return decode

    def constant(self, prefix: str, value: Any) -> str:
        for name, known in self.names.items():
            if known is value:
                return name
        name = self.fresh(prefix)
        self.names[name] = value
        return name

    def read_fixed(self, format_: str, size: int, prefix: str = "v") -> str:
        name = self.fresh(prefix)
        self.pending.append((format_, size, name))
        return name

    def flush(self) -> None:
        """Unpacks the pending run with one call."""
        if not self.pending:
            return
        formats = ">" + "".join(f for f, _, _ in self.pending)
        targets = "".join(f"{name}, " for _, _, name in self.pending)
        size = sum(s for _, s, _ in self.pending)
        self.pending = []
        if formats == ">B":
            self.lines.append("    " * self.indent + f"{targets[:-2]} = buf[pos]")
        else:
            key = "unpack_" + formats[1:].replace("?", "t")
            self.names.setdefault(key, struct.Struct(formats).unpack_from)
            self.lines.append("    " * self.indent + f"{targets.rstrip()} = {key}(buf, pos)")
        self.lines.append("    " * self.indent + f"pos += {size}")

    def length(self, compact: bool, format_: str, size: int) -> str:
        """A length; below 0 is null."""
        if not compact:
            name = self.read_fixed(format_, size, "n")
            self.flush()
            return name
        name = self.read_fixed("B", 1, "n")
        self.line(f"if {name} > 127: {name}, pos = read_uvarint(buf, pos - 1)", flush=True)
        self.line(f"{name} -= 1")
        return name

    def struct(self, cls: type[Struct]) -> str:
        """Lines that read one struct; returns the expression that makes it."""
        schema = cls.SCHEMA
        values: list[str] = []
        tagged: list[tuple[Field, str]] = []
        for field in schema.fields:
            if not field.present(self.version):
                values.append(self.default(field))
            elif field.is_tagged(self.version):
                values.append(self.fresh("v"))
                tagged.append((field, values[-1]))
            else:
                values.append(self.value(field, schema, f"{cls.__name__}.{field.name}"))
        if schema.is_flexible(self.version):
            self.tags(cls, tagged)
        return f"{self.constant('C_', cls)}({', '.join(values)})"

    def default(self, field: Field) -> str:
        if field.default == ():
            return "[]"
        if isinstance(field.default, type):
            return f"{self.constant('C_', field.default)}()"
        return repr(field.default)

    def tags(self, cls: type[Struct], tagged: list[tuple[Field, str]]) -> None:
        count = self.read_fixed("B", 1, "t")
        self.flush()
        for field, name in tagged:
            self.line(f"{name} = {self.default(field)}")
        self.line(f"if {count}:")
        self.indent += 1
        tag, size, end = self.fresh("tag"), self.fresh("size"), self.fresh("end")
        self.line(f"if {count} > 127: {count}, pos = read_uvarint(buf, pos - 1)")
        self.line(f"for _ in {self.times(count)}:")
        self.indent += 1
        self.line(f"{tag}, pos = read_uvarint(buf, pos)")
        self.line(f"{size}, pos = read_uvarint(buf, pos)")
        self.line(f"{end} = pos + {size}")
        self.line(
            f"if {end} > limit: {self.fail(f'a tagged field of {cls.__name__} ends after the message')}"
        )
        for field, name in tagged:
            where = f"{cls.__name__}.{field.name}"
            self.line(f"if {tag} == {field.tag}:")
            self.indent += 1
            self.line(f"{name} = {self.value(field, cls.SCHEMA, where)}", flush=True)
            self.line(f"if pos != {end}: {self.fail(f'the size of tagged field {where} is wrong')}")
            self.indent -= 1
        self.line(f"pos = {end}")
        self.indent -= 2

    def value(self, field: Field, schema: Schema, where: str) -> str:
        """Lines that read a field; returns the name or expression of its value."""
        compact = schema.is_flexible(self.version) and not field.legacy
        nullable = field.is_nullable(self.version)
        if field.wire.startswith("[]"):
            return self.array(field, compact, nullable, where)
        if field.wire in FIXED:
            return self.read_fixed(*FIXED[field.wire])
        if field.wire == "struct":
            assert field.item is not None
            return (
                self.nullable_struct(field, field.item) if nullable else self.bound(self.struct(field.item))
            )
        return self.sized(field.wire, compact, nullable, where)

    def bound(self, expression: str) -> str:
        """Makes the object now: its values are read by runs that later lines end."""
        name = self.fresh("v")
        self.line(f"{name} = {expression}", flush=True)
        return name

    def nullable_struct(self, field: Field, cls: type[Struct]) -> str:
        marker, name = self.read_fixed("b", 1, "m"), self.fresh("v")
        absent = "<= 0" if field.is_tagged(self.version) else "< 0"
        self.line(f"if {marker} {absent}: {name} = None", flush=True)
        self.line("else:")
        self.indent += 1
        self.line(f"{name} = {self.struct(cls)}", flush=True)
        self.indent -= 1
        return name

    def sized(self, type_: str, compact: bool, nullable: bool, where: str) -> str:
        """A string, bytes or records."""
        size = self.length(compact, *(("h", 2) if type_ == "string" else ("i", 4)))
        name, end = self.fresh("v"), self.fresh("end")
        null = f"{name} = None" if nullable else self.fail(f"{where} is null")
        self.line(f"if {size} < 0: {null}")
        self.line("else:")
        self.indent += 1
        self.line(f"{end} = pos + {size}")
        self.line(f"if {end} > limit: {self.fail(f'{where} ends after the message')}")
        if type_ == "string" and compact:
            self.line(f"if {size} > {MAX_STRING_BYTES}: {self.fail(f'{where} is too long')}")
        piece = f"buf[pos:{end}]"
        expression = {
            "string": f"str({piece}, 'utf-8', 'replace')",
            "bytes": f"bytes({piece})",
            "records": piece,
        }[type_]
        self.line(f"{name} = {expression}")
        self.line(f"pos = {end}")
        self.indent -= 1
        return name

    def array(self, field: Field, compact: bool, nullable: bool, where: str) -> str:
        element = field.wire[2:]
        count, name = self.length(compact, "i", 4), self.fresh("v")
        self.line(f"if {count} < 0: " + (f"{name} = None" if nullable else self.fail(f"{where} is null")))
        least = self.element_size(field, element, compact)
        self.line(
            f"elif {count} * {least} > limit - pos: "
            + self.fail(f"{where} has more elements than the message bytes")
        )
        self.line("else:")
        self.indent += 1
        if element in FIXED and element != "uuid":
            self.numbers(name, count, FIXED[element][0], least)
        else:
            self.line(f"{name} = {self.empty_list(count)}")
            self.line(f"for _ in {self.times(count)}:")
            self.indent += 1
            self.line(f"{name}.append({self.element(field, element, compact, where)})", flush=True)
            self.indent -= 1
        self.indent -= 1
        return name

    def times(self, count: str) -> str:
        return f"paced(range({count}))" if self.sliced else f"range({count})"

    def empty_list(self, count: str) -> str:
        return f"SlicedList() if {count} > {SHORT} else []" if self.sliced else "[]"

    def numbers(self, name: str, count: str, format_: str, size: int) -> None:
        if not self.sliced:
            self.line(f"{name} = list(unpack_from(f'>{{{count}}}{format_}', buf, pos))")
            self.line(f"pos += {count} * {size}")
            return
        left, some = self.fresh("left"), self.fresh("some")
        self.line(f"{name} = {self.empty_list(count)}")
        self.line(f"{left} = {count}")
        self.line(f"while {left}:")
        self.indent += 1
        self.line(f"{some} = min({left}, {NUMBERS_AT_ONCE})")
        self.line(f"{name} += unpack_from(f'>{{{some}}}{format_}', buf, pos)")
        self.line(f"pos += {some} * {size}")
        self.line(f"{left} -= {some}")
        self.line("yield_slice()")
        self.indent -= 1

    def element_size(self, field: Field, element: str, compact: bool) -> int:
        if element in FIXED:
            return FIXED[element][1]
        if element == "struct":
            assert field.item is not None
            size = minimum_size(field.item.SCHEMA, self.version)
            assert size > 0, f"{field.item.__name__} may take no byte: the element count would be unbounded"
            return size
        return 1 if compact else (2 if element == "string" else 4)

    def element(self, field: Field, element: str, compact: bool, where: str) -> str:
        if element == "struct":
            assert field.item is not None
            return self.struct(field.item)
        if element in FIXED:
            return self.read_fixed(*FIXED[element])
        return self.sized(element, compact, False, where)

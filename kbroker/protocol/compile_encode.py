"""Writes the Python source of an encoder for one (struct, version): one pack per run of fixed
fields.

The compiled function is `encode(out, o)`; it appends to the bytearray `out`. Fields that the
version does not have are dropped. It may raise struct.error, TypeError or AttributeError for values
that do not fit, which codec.py turns into ProtocolError.
"""

import struct
from collections.abc import Callable
from typing import Any

from kbroker.protocol.codec_source import CodecSource
from kbroker.protocol.long_frame import MAX_SLICED_BYTES, PART_BYTES, TooLarge, spill
from kbroker.protocol.schema import FIXED, Field, ProtocolError, Schema, Struct
from kbroker.protocol.slices import paced

SMALL = 16
"""Arrays of numbers below this length are packed, count included, by a prepared Struct."""


def write_uvarint(out: bytearray, value: int) -> None:
    """Appends an unsigned varint."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


class EncoderSource(CodecSource):
    """Source and names of one encoder. `pending`: the run of fixed fields not yet packed.

    sliced: the encoder runs in slices (slices.py) and stops at MAX_SLICED_BYTES."""

    def __init__(self, cls: type[Struct], version: int, sliced: bool = False) -> None:
        names: dict[str, Any] = {
            "pack": struct.pack,
            "write_uvarint": write_uvarint,
            "ProtocolError": ProtocolError,
            "paced": paced,
            "TooLarge": TooLarge,
            "spill": spill,
        }
        super().__init__("def encode(out, o):", names, cls, version, sliced)
        self.out = "out"
        self.pending: list[tuple[str, str]] = []
        self.struct(cls, "o")
        self.flush()
        self.line("return")

    def compile(self) -> Callable[[bytearray, Any], None]:
        exec(compile("\n".join(self.lines), f"<encode {self.message}>", "exec"), self.names)
        encode: Callable[[bytearray, Any], None] = self.names["encode"]
        return encode

    def flush(self) -> None:
        """Packs the pending run with one call."""
        if not self.pending:
            return
        formats = "".join(f for f, _ in self.pending)
        values = ", ".join(v for f, v in self.pending if f != "x")
        self.pending = []
        if formats == "x":
            self.line(f"{self.out}.append(0)")
        else:
            key = "pack_" + formats.replace("?", "t")
            self.names.setdefault(key, struct.Struct(">" + formats).pack)
            self.line(f"{self.out} += {key}({values})")

    def length(self, compact: bool, format_: str, expression: str) -> None:
        """Writes a length that is not null."""
        if not compact:
            self.pending.append((format_, expression))
            return
        name = self.fresh("n")
        self.line(f"{name} = {expression} + 1", flush=True)
        self.line(f"if {name} < 128: {self.out}.append({name})")
        self.line(f"else: write_uvarint({self.out}, {name})")

    def null(self, compact: bool, format_: str) -> None:
        self.pending.append(("x", "") if compact else (format_, "-1"))

    def struct(self, cls: type[Struct], o: str) -> None:
        schema = cls.SCHEMA
        tagged = []
        for field in schema.fields:
            if not field.present(self.version):
                continue
            if field.is_tagged(self.version):
                tagged.append(field)
            else:
                self.field(field, schema, f"{o}.{field.name}", f"{cls.__name__}.{field.name}")
        if schema.is_flexible(self.version):
            self.tags(cls, sorted(tagged, key=lambda f: f.tag or 0), o)

    def field(self, field: Field, schema: Schema, value: str, where: str) -> None:
        compact = schema.is_flexible(self.version) and not field.legacy
        nullable = field.is_nullable(self.version)
        if field.wire == "uuid":
            self.uuid(value, where)
        elif field.wire in FIXED:
            self.pending.append((FIXED[field.wire][0], value))
        elif field.wire == "struct":
            self.nested(field, value, nullable)
        else:
            format_ = "h" if field.wire == "string" else "i"
            name = self.fresh("v")
            self.line(f"{name} = {value}", flush=True)
            if nullable:
                self.line(f"if {name} is None:")
                self.indent += 1
                self.null(compact, format_)
                self.flush()
                self.indent -= 1
                self.line("else:")
                self.indent += 1
            self.present(field, name, compact, format_, where)
            if nullable:
                self.flush()
                self.indent -= 1

    def uuid(self, value: str, where: str) -> None:
        name = self.fresh("v")
        self.line(f"{name} = {value}")
        self.line(f"if len({name}) != 16: {self.fail(f'{where} is not 16 bytes')}")
        self.pending.append(("16s", name))

    def nested(self, field: Field, value: str, nullable: bool) -> None:
        assert field.item is not None
        name = self.fresh("o")
        self.line(f"{name} = {value}", flush=nullable)
        if not nullable:
            self.struct(field.item, name)
            return
        absent, present = ("0", "1") if field.is_tagged(self.version) else ("-1", "1")
        self.line(f"if {name} is None:")
        self.indent += 1
        self.pending.append(("b", absent))
        self.flush()
        self.indent -= 1
        self.line("else:")
        self.indent += 1
        self.pending.append(("b", present))
        self.struct(field.item, name)
        self.flush()
        self.indent -= 1

    def present(self, field: Field, name: str, compact: bool, format_: str, where: str) -> None:
        """A string, bytes, records or array that is not null."""
        if field.wire.startswith("[]"):
            self.array(field, name, compact, where)
        else:
            self.sized(field.wire, name, compact, format_)

    def sized(self, type_: str, name: str, compact: bool, format_: str) -> None:
        if type_ == "string":
            self.line(f"{name} = {name}.encode()")
        self.length(compact, format_, f"len({name})")
        self.line(f"{self.out} += {name}", flush=True)

    def array(self, field: Field, name: str, compact: bool, where: str) -> None:
        element = field.wire[2:]
        if element in FIXED and element != "uuid":
            self.numbers(FIXED[element][0], name, compact)
            return
        self.length(compact, "i", f"len({name})")
        self.flush()
        item = self.fresh("o")
        self.line(f"for {item} in {f'paced({name})' if self.sliced else name}:")
        self.indent += 1
        if self.sliced and self.out == "out":
            self.line(f"if len(out) > {PART_BYTES}: spill(out)")
        elif self.sliced:  # of a tagged field: its size comes before it
            self.line(f"if len({self.out}) > {MAX_SLICED_BYTES}: raise TooLarge()")
        if element == "struct":
            assert field.item is not None
            self.struct(field.item, item)
        elif element == "uuid":
            self.uuid(item, where)
        else:
            self.sized(element, item, compact, "h" if element == "string" else "i")
        self.flush()
        self.indent -= 1

    def numbers(self, format_: str, name: str, compact: bool) -> None:
        count, table = self.fresh("n"), f"{'compact' if compact else 'legacy'}_{format_}"
        prefix = "B" if compact else "i"
        self.names.setdefault(table, [struct.Struct(f">{prefix}{n}{format_}").pack for n in range(SMALL)])
        shown = f"{count} + 1" if compact else count
        self.line(f"{count} = len({name})", flush=True)
        self.line(f"if {count} < {SMALL}: {self.out} += {table}[{count}]({shown}, *{name})")
        self.line("else:")
        self.indent += 1
        self.line(f"write_uvarint({self.out}, {shown})" if compact else f"{self.out} += pack('>i', {count})")
        self.line(f"{self.out} += pack(f'>{{{count}}}{format_}', *{name})")
        self.indent -= 1

    def tags(self, cls: type[Struct], tagged: list[Field], o: str) -> None:
        """The section of tagged fields: those that differ from their default, by tag."""
        if not tagged:
            self.pending.append(("x", ""))
            return
        self.flush()
        count, section, outer = self.fresh("t"), self.fresh("tags"), self.out
        conditions = [self.differs(f, f"{o}.{f.name}") for f in tagged]
        self.line(f"if not ({' or '.join(conditions)}): {outer}.append(0)")
        self.line("else:")
        self.indent += 1
        self.line(f"{count} = 0")
        self.line(f"{section} = bytearray()")
        for field, condition in zip(tagged, conditions, strict=True):
            self.line(f"if {condition}:")
            self.indent += 1
            self.line(f"{count} += 1")
            self.out = self.fresh("tag")
            self.line(f"{self.out} = bytearray()")
            self.field(field, cls.SCHEMA, f"{o}.{field.name}", f"{cls.__name__}.{field.name}")
            self.flush()
            self.line(f"write_uvarint({section}, {field.tag})")
            self.line(f"write_uvarint({section}, len({self.out}))")
            self.line(f"{section} += {self.out}")
            self.indent -= 1
        self.out = outer
        self.line(f"write_uvarint({outer}, {count})")
        self.line(f"{outer} += {section}")
        self.indent -= 1

    def differs(self, field: Field, value: str) -> str:
        """The condition that a field has not its default: of a struct, that one of its fields has
        not."""
        if isinstance(field.default, type):
            assert field.item is not None
            parts = [self.differs(part, f"{value}.{part.name}") for part in field.item.SCHEMA.fields]
            return " or ".join(parts)
        return f"{value} != {'[]' if field.default == () else repr(field.default)}"

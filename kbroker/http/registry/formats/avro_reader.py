"""Reads Avro data by the avro library, within bounds: an array can claim 2^60 items of no bytes,
and a decimal takes the square of its bytes.

Reader and writer have the same schema. The library compares all branches of a union and all symbols
of an enum with each value, and at each array and map it adds up the least bytes of an item, through
every use of a record: for records that use each other twice, 40 of them, it never ends."""

import io
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

from avro.io import BinaryDecoder, DatumReader

from kbroker.http.registry.formats.avro_format import parse

MAX_DECIMAL_BYTES: Final = 1024
"""Some 2,400 digits. The library reads a decimal of a mebibyte in several minutes."""


class _Decoder(BinaryDecoder):
    """Reads bytes."""

    def read_decimal_from_fixed(self, precision: int, scale: int, size: int) -> Decimal:
        """Read a decimal of a size; decimals in bytes are read by this, too."""
        if size > MAX_DECIMAL_BYTES:
            raise ValueError(f"a decimal of {size} bytes")
        return super().read_decimal_from_fixed(precision, scale, size)


class _Reader(DatumReader):
    """Reads one datum of at most `max_values` values."""

    def __init__(self, schema: Any, max_values: int) -> None:
        super().__init__(schema, schema)
        self._max_values = self._left = max_values

    def read_data(self, writers_schema: Any, readers_schema: Any, decoder: Any) -> Any:
        """Read one value; this is called for each value inside it, too."""
        self._left -= 1
        if self._left < 0:
            raise ValueError(f"more than {self._max_values} values")
        return super().read_data(writers_schema, readers_schema, decoder)

    def read_union(self, writers_schema: Any, readers_schema: Any, decoder: Any) -> Any:  # noqa: ARG002
        """Read a value of one of the branches."""
        branch = _chosen(writers_schema.schemas, decoder.read_long())
        return self.read_data(branch, branch, decoder)

    def read_enum(self, writers_schema: Any, readers_schema: Any, decoder: Any) -> Any:  # noqa: ARG002
        """Read a symbol."""
        return _chosen(writers_schema.symbols, decoder.read_long())

    def read_array(self, writers_schema: Any, readers_schema: Any, decoder: Any) -> Any:  # noqa: ARG002
        """Read the items of all blocks."""
        items = writers_schema.items
        return [self.read_data(items, items, decoder) for _ in _items(decoder)]

    def read_map(self, writers_schema: Any, readers_schema: Any, decoder: Any) -> Any:  # noqa: ARG002
        """Read the entries of all blocks."""
        values = writers_schema.values
        return {decoder.read_utf8(): self.read_data(values, values, decoder) for _ in _items(decoder)}


def _chosen(choices: Any, number: int) -> Any:
    if not 0 <= number < len(choices):
        raise ValueError(f"number {number} of {len(choices)}")
    return choices[number]


def _items(decoder: Any) -> Iterator[None]:
    """One for each item of an array or a map: the count of a block, below zero with the block's
    bytes after it; 0 after the last block."""
    while count := decoder.read_long():
        if count < 0:
            decoder.skip_long()
        left = abs(count)
        while left:
            left -= 1
            yield


def reader_of(text: str, references: Mapping[str, str], max_values: int) -> Callable[[bytes], Any]:
    """The reading function of a schema. Raises InvalidSchema."""
    schema = parse(text, references).schema

    def read(data: bytes) -> Any:
        return _Reader(schema, max_values).read(_Decoder(io.BytesIO(data)))

    return read

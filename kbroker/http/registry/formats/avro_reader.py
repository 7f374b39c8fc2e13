"""Reads Avro data by the avro library, within bounds: an array can claim 2^60 items of no bytes, and
a decimal takes the square of its bytes."""

import io
from collections.abc import Callable, Mapping
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


def reader_of(text: str, references: Mapping[str, str], max_values: int) -> Callable[[bytes], Any]:
    """The reading function of a schema. Raises InvalidSchema."""
    schema = parse(text, references).schema

    def read(data: bytes) -> Any:
        return _Reader(schema, max_values).read(_Decoder(io.BytesIO(data)))

    return read

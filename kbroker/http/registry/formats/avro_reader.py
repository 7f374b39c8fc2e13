"""Reads Avro data by the avro library, within a bound: an array can claim 2^60 items of no
bytes."""

import io
from collections.abc import Callable, Mapping
from typing import Any

from avro.io import BinaryDecoder, DatumReader

from kbroker.http.registry.formats.avro_format import parse


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
        return _Reader(schema, max_values).read(BinaryDecoder(io.BytesIO(data)))

    return read

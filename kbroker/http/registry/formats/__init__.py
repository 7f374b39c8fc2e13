"""The formats of schemas: parsing with references, a canonical text, and whether one reads what
another wrote."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Protocol

from kbroker.http.registry.failure import unprocessable

MODULES = {"AVRO": "avro_format", "JSON": "json_format", "PROTOBUF": "protobuf_format"}
MAX_BYTES = 4 << 20
EXTRA = "kbroker[registry]"


class InvalidSchema(ValueError):
    """A schema of its format cannot be understood."""


class Parsed(Protocol):
    """A schema of one format."""

    @property
    def canonical(self) -> str:
        """The text that is kept and compared."""

    def normalized(self) -> str:
        """The same for schemas that mean the same."""

    def reads(self, written: Any) -> list[str]:
        """Why this schema cannot read what was written with another of the format; empty when it
        can."""


Resolved = Mapping[str, str]
"""Texts of referenced schemas, and of those that they refer to, by the name of the reference; in
order of use."""


def parse(schema_type: str, text: str, references: Resolved) -> Parsed:
    """A schema. Raises InvalidSchema, Failure for an unknown format or a missing library."""
    name = MODULES.get(schema_type)
    if name is None:
        raise unprocessable(422, f"Invalid schema type {schema_type}")
    try:
        module: Any = import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as missing:
        raise unprocessable(422, f"{missing.name} is not installed; try: pip install '{EXTRA}'") from missing
    if len(text) > MAX_BYTES:
        raise InvalidSchema(f"more than {MAX_BYTES} characters")
    try:
        parsed: Parsed = module.parse(text, references)
    except RecursionError:
        raise InvalidSchema("nested too deeply") from None
    return parsed

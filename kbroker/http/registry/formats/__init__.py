"""The formats of schemas: parsing with references, canonical text, and compatibility."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Protocol

from kbroker.http.registry.failure import unprocessable

MODULES = {"AVRO": "avro_format", "JSON": "json_format", "PROTOBUF": "protobuf_format"}
MAX_CHARACTERS = 1 << 20
"""Maximum of one schema: its record has to fit max.message.bytes of the topic, by default 1 MiB."""
MAX_REFERENCED = 4 << 20
"""Characters of all schemas that one refers to."""
EXTRA = "kbroker[registry]"


class InvalidSchema(ValueError):
    """The schema is invalid in its format."""


class Parsed(Protocol):
    """A schema of one format."""

    @property
    def canonical(self) -> str:
        """The text that is stored and compared."""

    def normalized(self) -> str:
        """A text that is equal for equivalent schemas."""

    def normal_text(self) -> str:
        """The schema that is stored with `normalize=true`."""

    def reads(self, written: Any) -> list[str]:
        """Reasons why this schema cannot read data of another schema of the format; empty if it
        can."""


Resolved = Mapping[str, str]
"""Texts of all referenced schemas by the name of the reference, each after those that it refers
to."""


def parse(schema_type: str, text: str, references: Resolved) -> Parsed:
    """Parse a schema. Raises InvalidSchema, and Failure for an unknown format or a missing
    library."""
    name = MODULES.get(schema_type)
    if name is None:
        raise unprocessable(422, f"Invalid schema type {schema_type}")
    try:
        module: Any = import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as missing:
        raise unprocessable(422, f"{missing.name} is not installed; try: pip install '{EXTRA}'") from missing
    if len(text) > MAX_CHARACTERS:
        raise InvalidSchema(f"more than {MAX_CHARACTERS} characters")
    if sum(map(len, references.values())) > MAX_REFERENCED:
        raise InvalidSchema(f"more than {MAX_REFERENCED} characters of references")
    try:
        parsed: Parsed = module.parse(text, references)
    except RecursionError:
        raise InvalidSchema("nested too deeply") from None
    except UnicodeEncodeError:  # of a text or a name that protoc or a descriptor cannot hold
        raise InvalidSchema("half of a surrogate pair") from None
    return parsed

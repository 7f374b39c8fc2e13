"""JSON Schema: checked by the jsonschema library, stored as given except for white space, compared
by `json_diff`."""

import json
from typing import Any

import jsonschema.exceptions
import jsonschema.validators

from kbroker.http import finite_json
from kbroker.http.registry.formats import InvalidSchema, Resolved
from kbroker.http.registry.formats.json_diff import differences
from kbroker.http.registry.formats.json_document import Document


class JsonSchema:
    """A parsed schema."""

    def __init__(self, text: str, references: Resolved) -> None:
        self.given = _load(text)
        if not isinstance(self.given, dict | bool):
            raise InvalidSchema("a JSON schema is an object or a boolean")
        if isinstance(self.given, dict) and not isinstance(self.given.get("$schema", ""), str):
            raise InvalidSchema("$schema is no string")
        others = {name: _load(one) for name, one in references.items()}
        kind = jsonschema.validators.validator_for(self.given, default=jsonschema.validators.Draft7Validator)
        try:
            kind.check_schema(self.given)
        except jsonschema.exceptions.SchemaError as error:
            raise InvalidSchema(f"{error.message} at {error.json_path}") from None
        except OverflowError as error:  # of a pattern
            raise InvalidSchema(str(error)) from None
        self.document = Document(self.given, others)
        self.document.check()
        self.canonical = json.dumps(self.given, separators=(",", ":"), ensure_ascii=False)

    def normalized(self) -> str:
        return json.dumps(self.given, separators=(",", ":"), ensure_ascii=False, sort_keys=True)

    def reads(self, written: "JsonSchema") -> list[str]:
        return [
            f'{{errorType:"{kind}", description:"At path \'{path}\' it does not allow what the old one does", '
            f'additionalInfo:""}}'
            for kind, path in differences(written.document, self.document)
        ]


def parse(text: str, references: Resolved) -> JsonSchema:
    """Raises InvalidSchema."""
    return JsonSchema(text, references)


def _load(text: str) -> Any:
    try:
        return finite_json.loads(text)
    except ValueError as error:
        raise InvalidSchema(f"no JSON: {error}") from None

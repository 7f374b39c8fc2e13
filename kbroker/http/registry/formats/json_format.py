"""JSON Schema: checked by the jsonschema library, stored as given except for white space, compared
by `json_diff`."""

import json
import re
from typing import Any

import jsonschema.exceptions
import jsonschema.validators

from kbroker.http import finite_json
from kbroker.http.registry.formats import InvalidSchema, Resolved
from kbroker.http.registry.formats.json_diff import differences
from kbroker.http.registry.formats.json_document import Document
from kbroker.http.registry.formats.json_values import value_text

LISTS_OF_TEXTS = ("type", "disallow", "required")
MAPS_OF_TEXTS = ("dependencies", "dependentRequired")
MAX_TYPES = 300
"""Maximum of a list of types or of required names with values that are no texts. The library
compares the values of such a list one by one, and makes an error of each."""
MAX_PATTERNS = 100_000
"""Characters of the regular expressions of a schema. The library compiles each, in 2 microseconds a
character."""
KEPT_PATTERNS = 1000
"""Characters up to which Python may keep what it compiled, some twenty bytes for each: it keeps 512
expressions, however long they are."""


class JsonSchema:
    """A parsed schema."""

    def __init__(self, text: str, references: Resolved) -> None:
        self.given = _load(text)
        if not isinstance(self.given, dict | bool):
            raise InvalidSchema("a JSON schema is an object or a boolean")
        if isinstance(self.given, dict) and not isinstance(self.given.get("$schema", ""), str):
            raise InvalidSchema("$schema is no string")
        patterns = _pattern_characters(self.given)
        if patterns > MAX_PATTERNS:
            raise InvalidSchema("the regular expressions are too long")
        others = {name: _load(one) for name, one in references.items()}
        kind = jsonschema.validators.validator_for(self.given, default=jsonschema.validators.Draft7Validator)
        try:
            kind.check_schema(_to_check(self.given))
        except jsonschema.exceptions.SchemaError as error:
            raise InvalidSchema(f"{error.message} at {error.json_path}") from None
        except OverflowError as error:  # of a pattern
            raise InvalidSchema(str(error)) from None
        finally:
            if patterns > KEPT_PATTERNS:
                re.purge()
        self.document = Document(self.given, others)
        self.document.check()
        self.canonical = json.dumps(self.given, separators=(",", ":"), ensure_ascii=False)

    def normalized(self) -> str:
        return json.dumps(self.given, separators=(",", ":"), ensure_ascii=False, sort_keys=True)

    normal_text = normalized

    def reads(self, written: "JsonSchema") -> list[str]:
        return [
            f'{{errorType:"{kind}", description:"At path \'{path}\' it does not allow what the old one does", '
            f'additionalInfo:""}}'
            for kind, path in differences(written.document, self.document)
        ]


def parse(text: str, references: Resolved) -> JsonSchema:
    """Raises InvalidSchema."""
    return JsonSchema(text, references)


def _to_check(schema: Any) -> Any:
    """A copy in which each value of an enum is a text: texts the library sorts to find equal ones,
    values of several types it compares one by one. Raises InvalidSchema for other lists that it
    would compare so."""
    if isinstance(schema, list):
        return [_to_check(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found: dict[str, Any] = {}
    for name, part in schema.items():
        if name == "enum" and isinstance(part, list):
            found[name] = [value_text(one) for one in part]
            continue
        if name in LISTS_OF_TEXTS:
            _check_texts(name, part)
        elif name in MAPS_OF_TEXTS and isinstance(part, dict):
            for one in part.values():
                _check_texts(name, one)
        found[name] = _to_check(part)
    return found


def _pattern_characters(schema: Any) -> int:
    if isinstance(schema, list):
        return sum(map(_pattern_characters, schema))
    if not isinstance(schema, dict):
        return 0
    pattern, properties = schema.get("pattern"), schema.get("patternProperties")
    own = len(pattern) if isinstance(pattern, str) else 0
    if isinstance(properties, dict):
        own += sum(map(len, properties))
    return own + sum(map(_pattern_characters, schema.values()))


def _check_texts(name: str, part: Any) -> None:
    if not isinstance(part, list) or len(part) <= MAX_TYPES:
        return
    if name in ("type", "disallow") or not all(isinstance(one, str) for one in part):
        raise InvalidSchema(f"too long a list in {name}")


def _load(text: str) -> Any:
    try:
        return finite_json.loads(text)
    except ValueError as error:
        raise InvalidSchema(f"no JSON: {error}") from None

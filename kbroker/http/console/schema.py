"""Schemas of answers in OpenAPI's terms, and parameters of requests: they are checked and
documented."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from kbroker.http.console.refusal import bad_request
from kbroker.protocol.bounds import MAX_TOPIC_CHARACTERS

Schema = Mapping[str, Any]

TEXT: Schema = {"type": "string"}
INT: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
BOOL: Schema = {"type": "boolean"}
NUMBERS: Schema = {"type": "object", "additionalProperties": NUMBER}

INT32, INT64 = 2**31 - 1, 2**63 - 1
MAX_VALUE_CHARACTERS = 8192
"""Maximum length of a value in a map."""
_DIGITS = re.compile(r"-?[0-9]{1,19}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NO_CONTROL = r"^[^\u0000-\u001F\u007F]*$"
"""_CONTROL's complement for the document, in the dialect of JSON Schema: text without control
characters."""
TOPIC_NAME = r"^(?!\.{1,2}$)[a-zA-Z0-9._-]+$"
"""Pattern of topic names for the document. The broker refuses other names."""


def maybe(schema: Schema) -> Schema:
    """The schema, or null."""
    return {**schema, "type": [schema["type"], "null"]}


def many(schema: Schema) -> Schema:
    """A list of the schema."""
    return {"type": "array", "items": schema}


def fields(**properties: Schema) -> Schema:
    """An object with these members, all required."""
    return {"type": "object", "properties": properties, "required": list(properties)}


class Parameter(Struct, frozen=True):
    """One value of a path, a query or a body. kind: string, integer, boolean, map (of strings, null
    where `nulls`), numbers (a map of numbers above 0, or null).

    low and high bound integers and the entries of a map, `high` the length of a string. pattern: of
    the document, for strings that only the broker checks."""

    name: str
    text: str
    kind: str = "string"
    default: Any = None
    required: bool = False
    low: int = 0
    high: int = MAX_TOPIC_CHARACTERS
    choices: tuple[str, ...] = ()
    nulls: bool = False
    pattern: str = _NO_CONTROL

    def schema(self) -> Schema:
        """The parameter's JSON schema for the document."""
        if self.kind == "integer":
            return {"type": "integer", "minimum": self.low, "maximum": self.high}
        if self.kind == "boolean":
            return BOOL
        if self.kind in ("map", "numbers"):
            return {
                "type": "object",
                "propertyNames": {"maxLength": MAX_TOPIC_CHARACTERS},
                "additionalProperties": self._value(),
                "minProperties": self.low,
                "maxProperties": self.high,
            }
        found: dict[str, Any] = {"type": "string", "maxLength": self.high}
        if self.required:
            found["minLength"] = 1
        return found | ({"enum": list(self.choices)} if self.choices else {"pattern": self.pattern})

    def _value(self) -> Schema:
        """JSON schema of a value in a map."""
        if self.kind == "numbers":
            return {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": INT64}
        value = {**TEXT, "maxLength": MAX_VALUE_CHARACTERS}
        return maybe(value) if self.nulls else value

    def of_text(self, given: str) -> Any:
        """Parse the value from a path or a query. Raises Refusal."""
        if self.kind == "integer":
            if not _DIGITS.fullmatch(given):
                raise bad_request(f"{self.name}: expected a whole number")
            return self._bounded(int(given))
        if self.kind == "boolean":
            if given not in ("true", "false"):
                raise bad_request(f"{self.name}: expected true or false")
            return given == "true"
        return self._string(given)

    def of_json(self, given: Any) -> Any:
        """Check the value of a member of a body. Raises Refusal."""
        if self.kind == "integer":
            if type(given) is not int:
                raise bad_request(f"{self.name}: expected a whole number")
            return self._bounded(given)
        if self.kind == "boolean":
            if type(given) is not bool:
                raise bad_request(f"{self.name}: expected true or false")
            return given
        if self.kind in ("map", "numbers"):
            return self._map(given)
        if type(given) is not str:
            raise bad_request(f"{self.name}: expected a string")
        return self._string(given)

    def _bounded(self, number: int) -> int:
        if not self.low <= number <= self.high:
            raise bad_request(f"{self.name}: expected {self.low} to {self.high}")
        return number

    def _string(self, given: str) -> str:
        if self.choices and given not in self.choices:
            raise bad_request(f"{self.name}: expected one of {', '.join(self.choices)}")
        if len(given) > self.high or (self.required and not given):
            raise bad_request(f"{self.name}: expected {int(self.required)} to {self.high} characters")
        if _CONTROL.search(given) or not _is_unicode(given):
            raise bad_request(f"{self.name}: holds a character that is not allowed")
        return given

    def _map(self, given: Any) -> dict[str, Any]:
        if type(given) is not dict or not self.low <= len(given) <= self.high:
            raise bad_request(f"{self.name}: expected an object of {self.low} to {self.high} entries")
        fits = self._is_number if self.kind == "numbers" else self._is_text
        for key, value in given.items():
            if len(key) > MAX_TOPIC_CHARACTERS or not _is_unicode(key):
                raise bad_request(f"{self.name}: a name is too long or is not text")
            if not fits(value):
                expected = "numbers above 0" if self.kind == "numbers" else "strings"
                raise bad_request(f"{self.name}: expected {expected}, not too large")
        return given

    def _is_number(self, value: Any) -> bool:
        return value is None or (type(value) in (int, float) and 0 < value <= INT64)

    def _is_text(self, value: Any) -> bool:
        if type(value) is not str:
            return value is None and self.nulls
        return len(value) <= MAX_VALUE_CHARACTERS and _is_unicode(value)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON allows
        return False
    return True


def from_query(parameters: Sequence[Parameter], given: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Checked values of a query, defaults for what is missing. Raises Refusal."""
    if unknown := sorted(set(given) - {parameter.name for parameter in parameters}):
        raise bad_request(f"unknown parameter {unknown[0][:80]!r}")
    found: dict[str, Any] = {}
    for parameter in parameters:
        texts = given.get(parameter.name, ())
        if len(texts) > 1:
            raise bad_request(f"{parameter.name}: given twice")
        if texts:
            found[parameter.name] = parameter.of_text(texts[0])
        elif parameter.required:
            raise bad_request(f"{parameter.name}: missing")
        else:
            found[parameter.name] = parameter.default
    return found


def from_body(parameters: Sequence[Parameter], given: Any) -> dict[str, Any]:
    """Checked values of a JSON object, defaults for missing members. Raises Refusal."""
    if type(given) is not dict:
        raise bad_request("expected a JSON object")
    if unknown := sorted(set(given) - {parameter.name for parameter in parameters}):
        raise bad_request(f"unknown member {unknown[0][:80]!r}")
    found: dict[str, Any] = {}
    for parameter in parameters:
        if parameter.name in given:
            found[parameter.name] = parameter.of_json(given[parameter.name])
        elif parameter.required:
            raise bad_request(f"{parameter.name}: missing")
        else:
            found[parameter.name] = parameter.default
    return found

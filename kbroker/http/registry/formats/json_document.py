"""A JSON schema with its references."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import urldefrag

from kbroker.config.whole_numbers import whole_number
from kbroker.http.registry.formats import InvalidSchema

MAX_DEPTH = 100
MAX_STEPS = 100
"""Maximum length of a chain of references."""


class Document:
    """A schema with its references."""

    def __init__(self, schema: Any, others: Mapping[str, Any]) -> None:
        self.schema = schema
        self.others = dict(others)
        for one in others.values():
            if isinstance(one, dict) and isinstance(one.get("$id"), str):
                self.others.setdefault(one["$id"], one)
        self._ids: dict[str, Any] = {}
        self._refers: dict[int, bool] = {}
        for found in _schemas(schema):
            for name in ("$id", "$anchor", "$dynamicAnchor"):
                if isinstance(found.get(name), str):
                    self._ids.setdefault(("" if name == "$id" else "#") + found[name], found)
        self._note_references(schema)

    def refers(self, schema: Any) -> bool:
        """Whether a part of the schema contains references, as far as known for a composed one."""
        return self._refers.get(id(schema), True)

    def _note_references(self, value: Any) -> bool:
        found = isinstance(value, dict) and ("$ref" in value or "$dynamicRef" in value)
        for part in _parts(value):
            found |= self._note_references(part)
        if isinstance(value, dict):
            self._refers[id(value)] = found
        return found

    def check(self) -> None:
        """Check that every reference can be resolved. Raises InvalidSchema."""
        for found in _schemas(self.schema):
            if isinstance(reference := found.get("$ref"), str):
                self.target(reference)

    def target(self, reference: str) -> Any:
        """The target of a $ref. Raises InvalidSchema."""
        if reference in self._ids:
            return self._ids[reference]
        try:
            url, fragment = urldefrag(reference)
        except ValueError as error:
            raise InvalidSchema(f"reference {reference}: {error}") from None
        root = self.others.get(url, self._ids.get(url)) if url else self.schema
        if root is None:
            # A relative reference is resolved against $id: its last part is the name of the
            # reference.
            root = self.others.get(url.rpartition("/")[2])
        if root is None and url.startswith(("http://json-schema.org/", "https://json-schema.org/")):
            return True
        if root is None:
            raise InvalidSchema(f"unresolved reference {reference}")
        return _pointer(root, fragment, reference)

    def resolved(self, schema: Any) -> Any:
        """A schema with its $ref resolved; its other keywords are kept."""
        seen: set[str] = set()
        while isinstance(schema, dict) and isinstance(schema.get("$ref"), str) and schema["$ref"] not in seen:
            if len(seen) >= MAX_STEPS:
                raise InvalidSchema(f"more than {MAX_STEPS} references that lead to one another")
            seen.add(schema["$ref"])
            target = self.target(schema["$ref"])
            rest = {name: value for name, value in schema.items() if name != "$ref"}
            schema = target if not isinstance(target, dict) else {**target, **rest}
        return schema


def _pointer(root: Any, fragment: str, reference: str) -> Any:
    found = root
    for part in fragment.split("/")[1:] if fragment.startswith("/") else ([] if not fragment else [None]):
        step = None if part is None else part.replace("~1", "/").replace("~0", "~").replace("%25", "%")
        if isinstance(found, dict) and step in found:
            found = found[step]
        elif isinstance(found, list) and (at := whole_number(step or "", len(found) - 1)) is not None:
            found = found[at]
        else:
            raise InvalidSchema(f"unresolved reference {reference}")
    return found


def _schemas(value: Any, depth: int = 0) -> Iterator[dict[str, Any]]:
    """Every object inside a schema that may be a schema, so not values of enum and const."""
    if depth > MAX_DEPTH:
        raise InvalidSchema("nested too deeply")
    if isinstance(value, dict):
        yield value
    for one in _parts(value):
        yield from _schemas(one, depth + 1)


def _parts(value: Any) -> Iterable[Any]:
    """The values in a part of a schema that may be or contain a schema."""
    if isinstance(value, dict):
        return [one for name, one in value.items() if name not in ("enum", "const", "default", "examples")]
    return value if isinstance(value, list) else ()

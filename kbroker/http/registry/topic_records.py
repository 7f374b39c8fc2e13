"""Records of the topic `_schemas` in Confluent's format: JSON keys and values, their members in
Confluent's order."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from msgspec import Struct

from kbroker.http import finite_json

LAST_IDS_KEY = b'{"keytype":"NOOP", "magic":0}'
"""Key of the record that keeps the highest ids when no schema has them any more. Confluent's
registry and Karapace ignore it, and their own NOOP, which has no space, does not replace it:
compaction compares bytes. After a key whose members are in another order, Karapace would write all
its keys in another order, and its removals would not cover our records."""
LAST_IDS = "lastIds"
SCHEMA_MEMBERS = ("metadata", "ruleSet")
"""Members of a schema besides its type, text and references."""


class Malformed(ValueError):
    """The record is not in the format of a schema registry."""


class Reference(Struct, frozen=True):
    """Another schema that a schema imports by name."""

    name: str
    subject: str
    version: int

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "subject": self.subject, "version": self.version}

    @classmethod
    def from_json(cls, given: Any) -> "Reference":
        """Raises Malformed."""
        try:
            found = cls(given["name"], given["subject"], given["version"])
        except (KeyError, TypeError):
            raise Malformed("a reference has name, subject and version") from None
        if type(found.name) is not str or type(found.subject) is not str or type(found.version) is not int:
            raise Malformed("a reference has name, subject and version")
        return found


@dataclass(frozen=True, slots=True)
class SchemaRow:
    """One version of a subject. extra: unknown members, which other registries may have written;
    they are kept."""

    subject: str
    version: int
    id: int
    schema: str
    schema_type: str = "AVRO"
    references: tuple[Reference, ...] = ()
    deleted: bool = False
    extra: tuple[tuple[str, Any], ...] = ()
    _digest: bytes = field(default_factory=bytes, init=False, repr=False, compare=False)
    _members: bytes = field(default_factory=bytes, init=False, repr=False, compare=False)

    @property
    def digest(self) -> bytes:
        """Equal for equal schemas, which have one id in a context. Other members that another
        registry adds to a record, such as a time, are not part of a schema. Computed once: a
        subject may have many versions with large metadata."""
        if not self._digest:
            found = sha256()
            for part in (self.schema_type, self.schema, repr(self.references), self.members.hex()):
                data = part.encode("utf-8", "surrogatepass")
                found.update(b"%d:" % len(data) + data)
            object.__setattr__(self, "_digest", found.digest())
        return self._digest

    @property
    def members(self) -> bytes:
        """Equal for equal metadata and rules, in any order of their names. Computed once."""
        if not self._members:
            given = dict(self.extra)
            found = {name: given[name] for name in SCHEMA_MEMBERS if given.get(name) is not None}
            data = json.dumps(found, sort_keys=True).encode()
            object.__setattr__(self, "_members", sha256(data).digest())
        return self._members

    def with_deleted(self, deleted: bool) -> "SchemaRow":
        return replace(self, deleted=deleted)

    def key(self) -> bytes:
        return schema_key(self.subject, self.version)

    def value(self) -> bytes:
        found: dict[str, Any] = {"subject": self.subject, "version": self.version, "id": self.id}
        found |= dict(self.extra)
        if self.references:
            found["references"] = [one.to_json() for one in self.references]
        if self.schema_type != "AVRO":
            found["schemaType"] = self.schema_type
        return dump({**found, "schema": self.schema, "deleted": self.deleted})

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "SchemaRow":
        """Raises Malformed."""
        known = ("subject", "version", "id", "schema", "schemaType", "references", "deleted", "md5")
        try:
            return cls(
                str(given["subject"]),
                int(given["version"]),
                int(given["id"]),
                str(given["schema"]),
                str(given.get("schemaType") or "AVRO"),
                tuple(Reference.from_json(one) for one in given.get("references") or ()),
                bool(given.get("deleted")),
                tuple((name, value) for name, value in given.items() if name not in known),
            )
        except (KeyError, TypeError, ValueError, OverflowError) as error:  # overflow: for an infinite number
            raise Malformed(f"no schema: {error}") from None


def dump(value: Any) -> bytes:
    """JSON. Half of a surrogate pair, which a client may write as an escape, stays one."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "backslashreplace")


def schema_key(subject: str, version: int) -> bytes:
    return dump({"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1})


def config_key(subject: str | None) -> bytes:
    return dump({"keytype": "CONFIG", "subject": subject, "magic": 0})


def mode_key(subject: str | None) -> bytes:
    return dump({"keytype": "MODE", "subject": subject, "magic": 0})


def delete_key(subject: str) -> bytes:
    return dump({"keytype": "DELETE_SUBJECT", "subject": subject, "magic": 0})


def load(data: bytes) -> dict[str, Any]:
    """A key or a value. Raises Malformed."""
    try:
        found = finite_json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Malformed(str(error)) from None
    if type(found) is not dict:
        raise Malformed("no JSON object")
    return found

"""The paths of the API: each row is a method, a pattern and a function of the request."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from kbroker import __version__
from kbroker.config.setting import INT_MAX
from kbroker.config.whole_numbers import whole_number
from kbroker.http.console.caller import Caller
from kbroker.http.registry import failure, levels, operations
from kbroker.http.registry.compatibility import find
from kbroker.http.registry.names import DEFAULT_CONTEXT, context_of, context_prefix, qualified
from kbroker.http.registry.topic import SchemaTopic
from kbroker.http.registry.topic_records import SchemaRow, config_key, dump, mode_key


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: a caller with the rights of its user, the parts of the path, query and body."""

    topic: SchemaTopic
    caller: Caller
    cluster_id: str
    context: str = DEFAULT_CONTEXT
    parts: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] = field(default_factory=dict)

    @property
    def subject(self) -> str:
        """The subject in the path, with its context; empty for the settings of a whole context."""
        return qualified(self.context, self.parts.get("subject", ""))

    @property
    def place(self) -> str | None:
        """The owner of the settings: a subject, a context, or all."""
        if "subject" in self.parts:
            return self.subject
        return context_prefix(self.context) or None

    def flag(self, name: str) -> bool:
        """A parameter that is true or false."""
        return self.query.get(name, "").lower() == "true"

    def number(self, name: str, default: int) -> int:
        """A parameter that is a number. Raises Failure."""
        text = self.query.get(name, "")
        if not text:
            return default
        number = whole_number(text.removeprefix("-"), INT_MAX)
        if number is None:
            raise failure.Failure(HTTPStatus.NOT_FOUND, 404, "HTTP 404 Not Found")
        return -number if text.startswith("-") else number


def of_row(row: SchemaRow) -> dict[str, Any]:
    """A version as the API shows it."""
    found: dict[str, Any] = {"subject": row.subject, "version": row.version, "id": row.id}
    return found | text_of(row)


def text_of(row: SchemaRow) -> dict[str, Any]:
    """A schema alone."""
    found: dict[str, Any] = {}
    if row.schema_type != "AVRO":
        found["schemaType"] = row.schema_type
    if row.references:
        found["references"] = [one.to_json() for one in row.references]
    return {**found, **dict(row.extra), "schema": row.schema}


def subjects(asked: Asked) -> list[str]:
    state = asked.topic.refresh(asked.caller)
    prefix = asked.query.get("subjectPrefix", context_prefix(asked.context))
    deleted, only = asked.flag("deleted"), asked.flag("deletedOnly")
    found = []
    for name in sorted(state.subjects):
        alive = bool(state.versions(name))
        shown = not alive if only else alive or deleted
        if shown and name.startswith("" if prefix == ":*:" else prefix):
            found.append(name)
    return _page(asked, found)


def _page(asked: Asked, found: list[Any]) -> list[Any]:
    offset, limit = max(asked.number("offset", 0), 0), asked.number("limit", -1)
    return found[offset:] if limit < 0 else found[offset : offset + limit]


def schemas(asked: Asked) -> list[dict[str, Any]]:
    state = asked.topic.refresh(asked.caller)
    prefix = asked.query.get("subjectPrefix", context_prefix(asked.context))
    rows = []
    for name in sorted(state.subjects):
        if name.startswith("" if prefix == ":*:" else prefix):
            versions = state.versions(name, asked.flag("deleted"))
            rows += versions[-1:] if asked.flag("latestOnly") else versions
    return [of_row(row) for row in _page(asked, rows)]


def _by_id(asked: Asked) -> SchemaRow:
    state = asked.topic.refresh(asked.caller)
    text = asked.parts["id"]
    subject = asked.query.get("subject", "")
    name = qualified(asked.context, subject) if subject else context_prefix(asked.context)
    return find(state, name, int(text[:10]))


def schema_by_id(asked: Asked) -> dict[str, Any]:
    row = _by_id(asked)
    found = text_of(row)
    if asked.flag("fetchMaxId"):
        found["maxId"] = asked.topic.state.last_ids.get(context_of(row.subject), 0)
    return found


def text_by_id(asked: Asked) -> str:
    return _by_id(asked).schema


def _users(asked: Asked) -> list[SchemaRow]:
    row = _by_id(asked)
    rows = asked.topic.state.ids[context_of(row.subject)][row.id]
    chosen = asked.query.get("subject")
    shown = [one for one in rows if asked.flag("deleted") or not one.deleted]
    shown = [one for one in shown if chosen is None or one.subject == qualified(asked.context, chosen)]
    return sorted(shown, key=lambda one: (one.subject, one.version))


def subjects_by_id(asked: Asked) -> list[str]:
    return list(dict.fromkeys(row.subject for row in _users(asked)))


def versions_by_id(asked: Asked) -> list[dict[str, Any]]:
    return [{"subject": row.subject, "version": row.version} for row in _users(asked)]


def versions(asked: Asked) -> list[int]:
    state = asked.topic.refresh(asked.caller)
    rows = state.versions(asked.subject, deleted=asked.flag("deleted") or asked.flag("deletedOnly"))
    if asked.flag("deletedOnly"):
        rows = [row for row in rows if row.deleted]
    if not rows:
        raise failure.subject_not_found(asked.subject)
    return _page(asked, [row.version for row in rows])


def _version(asked: Asked) -> SchemaRow:
    operations.version_number(asked.parts["version"])
    state = asked.topic.refresh(asked.caller)
    return operations.version_of(state, asked.subject, asked.parts["version"], asked.flag("deleted"))


def version(asked: Asked) -> dict[str, Any]:
    return of_row(_version(asked))


def version_text(asked: Asked) -> str:
    return _version(asked).schema


def referenced_by(asked: Asked) -> list[int]:
    row = _version(asked)
    return asked.topic.state.referencing(row.subject, row.version)


def register(asked: Asked) -> dict[str, Any]:
    normalize = asked.flag("normalize")
    return {"id": operations.register(asked.topic, asked.caller, asked.subject, asked.body, normalize)}


def lookup(asked: Asked) -> dict[str, Any]:
    flags = asked.flag("normalize"), asked.flag("deleted")
    return of_row(operations.lookup(asked.topic, asked.caller, asked.subject, asked.body, *flags))


def delete_subject(asked: Asked) -> list[int]:
    return operations.delete_subject(asked.topic, asked.caller, asked.subject, asked.flag("permanent"))


def delete_version(asked: Asked) -> int:
    given = asked.parts["version"]
    return operations.delete_version(asked.topic, asked.caller, asked.subject, given, asked.flag("permanent"))


def test_compatibility(asked: Asked) -> dict[str, Any]:
    reasons = operations.test_compatibility(
        asked.topic,
        asked.caller,
        asked.subject,
        asked.parts.get("version"),
        asked.body,
        asked.flag("normalize"),
    )
    return {"is_compatible": not reasons, **({"messages": reasons} if asked.flag("verbose") else {})}


def get_config(asked: Asked) -> dict[str, Any]:
    state = asked.topic.refresh(asked.caller)
    return levels.config_of(state, asked.place, asked.flag("defaultToGlobal") or "subject" not in asked.parts)


def put_config(asked: Asked) -> dict[str, Any]:
    kept = {name: asked.body[name] for name in levels.CONFIG_MEMBERS if asked.body.get(name) is not None}
    given = asked.body.get("compatibility", asked.body.get("compatibilityLevel"))
    with asked.topic.lock:
        state = asked.topic.refresh(asked.caller)
        before = state.levels.get(asked.place, {})
        level = (
            levels.level_name(given) if given is not None or not kept else before.get("compatibilityLevel")
        )
        value = {**before, **({"compatibilityLevel": level} if level else {}), **kept}
        asked.topic.write(asked.caller, [(config_key(asked.place), dump(value))])
    return {**({"compatibility": level} if given is not None else {}), **kept}


def delete_config(asked: Asked) -> dict[str, Any]:
    with asked.topic.lock:
        state = asked.topic.refresh(asked.caller)
        before = (
            levels.config_of(state, asked.place, False)
            if asked.place
            else levels.config_of(state, None, True)
        )
        asked.topic.write(asked.caller, [(config_key(asked.place), None)])
    return before


def get_mode(asked: Asked) -> dict[str, Any]:
    state = asked.topic.refresh(asked.caller)
    default = asked.flag("defaultToGlobal") or "subject" not in asked.parts
    return {"mode": levels.mode_of(state, asked.place, default)}


def put_mode(asked: Asked) -> dict[str, Any]:
    mode = levels.mode_name(asked.body.get("mode"))
    with asked.topic.lock:
        state = asked.topic.refresh(asked.caller)
        name = asked.place
        held = [
            one
            for one in state.subjects
            if name is None or one == name or (name[-1] == ":" and one.startswith(name))
        ]
        if mode == "IMPORT" and not asked.flag("force") and any(state.versions(one) for one in held):
            raise failure.operation_not_permitted("Cannot import since found existing subjects")
        asked.topic.write(asked.caller, [(mode_key(name), dump({"mode": mode}))])
    return {"mode": mode}


def delete_mode(asked: Asked) -> dict[str, Any]:
    with asked.topic.lock:
        state = asked.topic.refresh(asked.caller)
        before = levels.mode_of(state, asked.place, asked.place is None)
        asked.topic.write(asked.caller, [(mode_key(asked.place), None)])
    return {"mode": before}


def contexts(asked: Asked) -> list[str]:
    return sorted(asked.topic.refresh(asked.caller).contexts)


Function = Callable[[Asked], Any]
# fmt: off
TABLE: tuple[tuple[str, str, Function], ...] = (
    ("GET", "/", lambda _: {}),
    ("GET", "/contexts", contexts),
    ("GET", "/schemas/types", lambda _: ["JSON", "PROTOBUF", "AVRO"]),
    ("GET", "/schemas", schemas),
    ("GET", "/schemas/ids/{id}", schema_by_id),
    ("GET", "/schemas/ids/{id}/schema", text_by_id),
    ("GET", "/schemas/ids/{id}/subjects", subjects_by_id),
    ("GET", "/schemas/ids/{id}/versions", versions_by_id),
    ("GET", "/subjects", subjects),
    ("POST", "/subjects/{subject}", lookup),
    ("DELETE", "/subjects/{subject}", delete_subject),
    ("GET", "/subjects/{subject}/versions", versions),
    ("POST", "/subjects/{subject}/versions", register),
    ("GET", "/subjects/{subject}/versions/{version}", version),
    ("DELETE", "/subjects/{subject}/versions/{version}", delete_version),
    ("GET", "/subjects/{subject}/versions/{version}/schema", version_text),
    ("GET", "/subjects/{subject}/versions/{version}/referencedby", referenced_by),
    ("POST", "/compatibility/subjects/{subject}/versions", test_compatibility),
    ("POST", "/compatibility/subjects/{subject}/versions/{version}", test_compatibility),
    ("GET", "/config", get_config), ("PUT", "/config", put_config), ("DELETE", "/config", delete_config),
    ("GET", "/config/{subject}", get_config), ("PUT", "/config/{subject}", put_config),
    ("DELETE", "/config/{subject}", delete_config),
    ("GET", "/mode", get_mode), ("PUT", "/mode", put_mode), ("DELETE", "/mode", delete_mode),
    ("GET", "/mode/{subject}", get_mode), ("PUT", "/mode/{subject}", put_mode),
    ("DELETE", "/mode/{subject}", delete_mode),
    ("GET", "/v1/metadata/id", lambda asked: {"id": asked.cluster_id, "scope": {"path": [], "clusters": {
        "kafka-cluster": asked.cluster_id, "schema-registry-cluster": "schema-registry"}}}),
    ("GET", "/v1/metadata/version", lambda _: {"version": f"kbroker {__version__}", "commitId": ""}),
)
# fmt: on
_PART = {"{subject}": "(?P<subject>[^/]+)", "{version}": "(?P<version>[^/]+)", "{id}": "(?P<id>[0-9]{1,10})"}


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile("/".join(_PART.get(part, re.escape(part)) for part in path.split("/")))


ROUTES = [(_pattern(path), method, answer) for method, path, answer in TABLE]

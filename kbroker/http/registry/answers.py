"""The paths of the API: each row is a method, a pattern and a function of the request."""

import re
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from msgspec import Struct, field

from kbroker import __version__
from kbroker.config.setting import INT_MAX
from kbroker.config.whole_numbers import whole_number
from kbroker.http.console.caller import Caller
from kbroker.http.registry import failure, levels, operations, registration
from kbroker.http.registry.compatibility import find
from kbroker.http.registry.names import DEFAULT_CONTEXT, context_of, context_prefix, qualified
from kbroker.http.registry.state import State
from kbroker.http.registry.topic import SchemaTopic
from kbroker.http.registry.topic_records import SCHEMA_MEMBERS, SchemaRow, config_key, dump, mode_key


class RegistryRequest(Struct, frozen=True):
    """One request: a caller with the rights of its user, the parts of the path, query and body.

    query: parameters by name, without empty ones. parameters: all, as several may have one name."""

    topic: SchemaTopic
    caller: Caller
    cluster_id: str
    context: str = DEFAULT_CONTEXT
    parts: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] = field(default_factory=dict)
    parameters: Sequence[tuple[str, str]] = ()

    @property
    def subject(self) -> str:
        """The subject in the path, with its context; empty for the settings of a whole context."""
        return qualified(self.context, self.parts.get("subject", ""))

    @property
    def owner(self) -> str | None:
        """The owner of settings: a subject or a context; None for all subjects."""
        if "subject" in self.parts:
            return self.subject
        return context_prefix(self.context) or None

    def flag(self, name: str) -> bool:
        """Whether a parameter is true."""
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
    """The schema without its subject, version and id."""
    found: dict[str, Any] = {}
    if row.schema_type != "AVRO":
        found["schemaType"] = row.schema_type
    if row.references:
        found["references"] = [one.to_json() for one in row.references]
    return {**found, **dict(row.extra), "schema": row.schema}


def subjects(request: RegistryRequest) -> list[str]:
    state = request.topic.refresh(request.caller)
    prefix = request.query.get("subjectPrefix", context_prefix(request.context))
    deleted, only = request.flag("deleted"), request.flag("deletedOnly")
    found = []
    for name in sorted(state.subjects):
        alive = bool(state.versions(name))
        shown = not alive if only else alive or deleted
        if shown and name.startswith("" if prefix == ":*:" else prefix):
            found.append(name)
    return _page(request, found)


def _page(request: RegistryRequest, found: list[Any]) -> list[Any]:
    offset, limit = max(request.number("offset", 0), 0), request.number("limit", -1)
    return found[offset:] if limit < 0 else found[offset : offset + limit]


def schemas(request: RegistryRequest) -> list[dict[str, Any]]:
    state = request.topic.refresh(request.caller)
    prefix = request.query.get("subjectPrefix", context_prefix(request.context))
    rows = []
    for name in sorted(state.subjects):
        if name.startswith("" if prefix == ":*:" else prefix):
            versions = state.versions(name, request.flag("deleted"))
            rows += versions[-1:] if request.flag("latestOnly") else versions
    return [of_row(row) for row in _page(request, rows)]


def _by_id(request: RegistryRequest) -> tuple[State, SchemaRow]:
    """A schema, and the state that it was found in."""
    state = request.topic.refresh(request.caller)
    text = request.parts["id"]
    subject = request.query.get("subject", "")
    name = qualified(request.context, subject) if subject else context_prefix(request.context)
    return state, find(state, name, int(text[:10]))


def schema_by_id(request: RegistryRequest) -> dict[str, Any]:
    state, row = _by_id(request)
    found = text_of(row)
    if request.flag("fetchMaxId"):
        found["maxId"] = state.last_ids.get(context_of(row.subject), 0)
    return found


def text_by_id(request: RegistryRequest) -> str:
    return _by_id(request)[1].schema


def _users(request: RegistryRequest) -> list[SchemaRow]:
    state, row = _by_id(request)
    rows = [
        one
        for one in state.ids.get(context_of(row.subject), {}).get(row.id, ())
        if not state.is_of_another(one)
    ]
    chosen = request.query.get("subject")
    shown = [one for one in rows if request.flag("deleted") or not one.deleted]
    shown = [one for one in shown if chosen is None or one.subject == qualified(request.context, chosen)]
    return sorted(shown, key=lambda one: (one.subject, one.version))


def subjects_by_id(request: RegistryRequest) -> list[str]:
    return list(dict.fromkeys(row.subject for row in _users(request)))


def versions_by_id(request: RegistryRequest) -> list[dict[str, Any]]:
    return [{"subject": row.subject, "version": row.version} for row in _users(request)]


def versions(request: RegistryRequest) -> list[int]:
    state = request.topic.refresh(request.caller)
    rows = state.versions(request.subject, deleted=request.flag("deleted") or request.flag("deletedOnly"))
    if request.flag("deletedOnly"):
        rows = [row for row in rows if row.deleted]
    if not rows:
        raise failure.subject_not_found(request.subject)
    return _page(request, [row.version for row in rows])


def _version(request: RegistryRequest) -> tuple[State, SchemaRow]:
    """A version, and the state that it was found in."""
    operations.version_number(request.parts["version"])
    state = request.topic.refresh(request.caller)
    found = operations.version_of(state, request.subject, request.parts["version"], request.flag("deleted"))
    return state, found


def version(request: RegistryRequest) -> dict[str, Any]:
    state, row = _version(request)
    return of_row(registration.with_own_id(request.topic, request.caller, state, row))


def version_text(request: RegistryRequest) -> str:
    return _version(request)[1].schema


def latest_with_metadata(request: RegistryRequest) -> dict[str, Any]:
    """The latest version whose metadata have all given properties: serializers write with it
    (`use.latest.with.metadata`)."""
    names, values = ([one for name, one in request.parameters if name == part] for part in ("key", "value"))
    properties = dict(zip(names, values, strict=False))
    state = request.topic.refresh(request.caller)
    row = operations.latest_with(state, request.subject, properties, request.flag("deleted"))
    return of_row(registration.with_own_id(request.topic, request.caller, state, row))


def referenced_by(request: RegistryRequest) -> list[int]:
    state, row = _version(request)
    return state.referencing(row.subject, row.version)


def register(request: RegistryRequest) -> dict[str, Any]:
    normalize = request.flag("normalize")
    row = registration.register(request.topic, request.caller, request.subject, request.body, normalize)
    kept = dict(row.extra)
    if all(kept.get(name) == request.body.get(name) for name in SCHEMA_MEMBERS):
        return {"id": row.id}
    return {"id": row.id, "version": row.version} | text_of(row)  # a client learns of rules so


def lookup(request: RegistryRequest) -> dict[str, Any]:
    flags = request.flag("normalize"), request.flag("deleted")
    return of_row(registration.lookup(request.topic, request.caller, request.subject, request.body, *flags))


def delete_subject(request: RegistryRequest) -> list[int]:
    return operations.delete_subject(
        request.topic, request.caller, request.subject, request.flag("permanent")
    )


def delete_version(request: RegistryRequest) -> int:
    given = request.parts["version"]
    return operations.delete_version(
        request.topic, request.caller, request.subject, given, request.flag("permanent")
    )


def test_compatibility(request: RegistryRequest) -> dict[str, Any]:
    reasons = operations.test_compatibility(
        request.topic,
        request.caller,
        request.subject,
        request.parts.get("version"),
        request.body,
        request.flag("normalize"),
    )
    return {"is_compatible": not reasons, **({"messages": reasons} if request.flag("verbose") else {})}


def get_config(request: RegistryRequest) -> dict[str, Any]:
    state = request.topic.refresh(request.caller)
    return levels.config_of(
        state, request.owner, request.flag("defaultToGlobal") or "subject" not in request.parts
    )


def put_config(request: RegistryRequest) -> dict[str, Any]:
    kept = {name: request.body[name] for name in levels.CONFIG_MEMBERS if request.body.get(name) is not None}
    given = request.body.get("compatibility", request.body.get("compatibilityLevel"))
    with request.topic.changing(request.caller) as state:
        before = state.levels.get(request.owner, {})
        level = (
            levels.level_name(given) if given is not None or not kept else before.get("compatibilityLevel")
        )
        value = {**before, **({"compatibilityLevel": level} if level else {}), **kept}
        request.topic.write(request.caller, [(config_key(request.owner), dump(value))])
    return {**({"compatibility": level} if given is not None else {}), **kept}


def delete_config(request: RegistryRequest) -> dict[str, Any]:
    with request.topic.changing(request.caller) as state:
        before = (
            levels.config_of(state, request.owner, False)
            if request.owner
            else levels.config_of(state, None, True)
        )
        request.topic.write(request.caller, [(config_key(request.owner), None)])
    return before


def get_mode(request: RegistryRequest) -> dict[str, Any]:
    state = request.topic.refresh(request.caller)
    default = request.flag("defaultToGlobal") or "subject" not in request.parts
    return {"mode": levels.mode_of(state, request.owner, default)}


def put_mode(request: RegistryRequest) -> dict[str, Any]:
    mode = levels.mode_name(request.body.get("mode"))
    with request.topic.changing(request.caller) as state:
        name = request.owner
        held = [
            one
            for one in sorted(state.subjects)
            if name is None or one == name or (name[-1] == ":" and one.startswith(name))
        ]
        if mode == "IMPORT" and not request.flag("force") and any(state.versions(one) for one in held):
            raise failure.operation_not_permitted("Cannot import since found existing subjects")
        request.topic.write(request.caller, [(mode_key(name), dump({"mode": mode}))])
    return {"mode": mode}


def delete_mode(request: RegistryRequest) -> dict[str, Any]:
    with request.topic.changing(request.caller) as state:
        before = levels.mode_of(state, request.owner, request.owner is None)
        request.topic.write(request.caller, [(mode_key(request.owner), None)])
    return {"mode": before}


def contexts(request: RegistryRequest) -> list[str]:
    return sorted(request.topic.refresh(request.caller).contexts)


Function = Callable[[RegistryRequest], Any]
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
    ("GET", "/subjects/{subject}/metadata", latest_with_metadata),
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
    ("GET", "/v1/metadata/id", lambda request: {"id": request.cluster_id, "scope": {"path": [], "clusters": {
        "kafka-cluster": request.cluster_id, "schema-registry-cluster": "schema-registry"}}}),
    ("GET", "/v1/metadata/version", lambda _: {"version": f"kbroker {__version__}", "commitId": ""}),
)
# fmt: on
_PART = {"{subject}": "(?P<subject>[^/]+)", "{version}": "(?P<version>[^/]+)", "{id}": "(?P<id>[0-9]{1,10})"}


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile("/".join(_PART.get(part, re.escape(part)) for part in path.split("/")))


ROUTES = [(_pattern(path), method, answer) for method, path, answer in TABLE]

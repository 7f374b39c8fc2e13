"""Registers schemas and looks them up. A schema is parsed and compared without the lock of the
topic, which takes long at times; with the lock, only what that depends on is compared, and the
record written."""

from collections.abc import Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Final

from msgspec import Struct

from kbroker.http.console.caller import Caller
from kbroker.http.registry import deadline, failure
from kbroker.http.registry.compatibility import References, reasons_against, resolve
from kbroker.http.registry.levels import check_writable, inherited, mode_of, normalizes
from kbroker.http.registry.metadata import has_defaults_or_overrides, in_group, populated
from kbroker.http.registry.names import context_of, is_allowed
from kbroker.http.registry.operations import (
    LARGEST,
    highest_ids,
    parse_candidate,
    same,
    schema_of,
    with_versions,
    written_again,
)
from kbroker.http.registry.state import State
from kbroker.http.registry.topic import NotWritten, Row, SchemaTopic
from kbroker.http.registry.topic_records import Reference, SchemaRow, dump

MAX_CONTEXTS_BYTES: Final = 256 << 10
"""Maximum for the names of all contexts with the highest id of each, which have to fit one record:
a context keeps its entry when its last schema is removed."""
TRIES: Final = 20
"""Ids that other registries may give to other schemas at the same time."""


class Basis(Struct, frozen=True):
    """The parts of a state that decide whether a schema can be registered, and as which text: the
    versions of its subject, settings and mode, the schemas that it refers to, and as which
    versions."""

    kept: list[SchemaRow]
    config: dict[str, Any]
    mode: str
    references: References
    versions: tuple[Reference, ...]

    @classmethod
    def of(cls, state: State, row: SchemaRow) -> "Basis":
        """Raises Failure."""
        subject = row.subject
        references = resolve(state, subject, row.references)
        versions = with_versions(state, row)
        return cls(
            state.versions(subject), inherited(state, subject), mode_of(state, subject), references, versions
        )


def register(
    topic: SchemaTopic, caller: Caller, subject: str, body: Mapping[str, Any], normalize: bool
) -> SchemaRow:
    """The version with a schema, which is registered if it is new. Raises Failure."""
    if not is_allowed(subject):
        raise failure.unprocessable(42208, f"The specified subject '{subject}' is not a valid subject")
    state = topic.refresh(caller)
    given = schema_of(subject, body)
    limit = deadline.Deadline(deadline.WAIT_S)
    is_checked = False
    while True:
        basis = Basis.of(state, given)  # before all else: another thread may change the state
        row = _decided(state, basis, given, body, normalize)
        if row.id:
            return row
        if not is_checked:
            topic.check_rights(caller)
            is_checked = True
        with topic.locked(caller) as state:
            if Basis.of(state, given) == basis:
                return _written(topic, caller, state, row, body)
        if limit.is_over:
            raise failure.busy(f"too many changes of subject {subject} at the same time")


def lookup(
    topic: SchemaTopic, caller: Caller, subject: str, body: Mapping[str, Any], normalize: bool, deleted: bool
) -> SchemaRow:
    """The version of a subject with this schema. Raises Failure."""
    state = topic.refresh(caller)
    kept = state.versions(subject, deleted)
    if not kept:
        raise failure.subject_not_found(subject)
    normalize = normalize or normalizes(state, subject)
    row, candidate = parse_candidate(state, schema_of(subject, body), normalize)
    found = same(state, row, candidate, kept, normalize)
    if found is None:
        raise failure.schema_not_found()
    return with_own_id(topic, caller, state, found)


def with_own_id(topic: SchemaTopic, caller: Caller, state: State, found: SchemaRow) -> SchemaRow:
    """A stored version; if another registry gave its id to another schema first, it is written
    again with an id that no other schema has. A caller that may not do so does not find it: a
    serializer would write records with the id of the other schema. Raises Failure."""
    if not state.is_of_another(found):
        return found
    try:
        topic.check_rights(caller)
        with topic.locked(caller) as state:
            row = state.version(found.subject, found.version)
            if row is None or row.digest != found.digest:
                raise failure.schema_not_found()
            if not state.is_of_another(row):
                return row
            _check_mode(state, row.subject, mode_of(state, row.subject) == "IMPORT", None)
            return _written(topic, caller, state, replace(row, id=0), {})
    except failure.Failure as refused:
        if refused.status in (HTTPStatus.FORBIDDEN, HTTPStatus.UNPROCESSABLE_ENTITY):
            raise failure.schema_not_found() from refused
        raise


def _decided(
    state: State, basis: Basis, given: SchemaRow, body: Mapping[str, Any], normalize: bool
) -> SchemaRow:
    """The stored version with this schema, or a new row, without an id. The stored version has no
    id either if another registry gave that to another schema first: it is written again. Raises
    Failure if the subject cannot have it."""
    subject, number = given.subject, _given(body, "id")
    normalize = normalize or bool(basis.config.get("normalize"))
    row, candidate = parse_candidate(state, given, normalize)
    importing = basis.mode == "IMPORT"
    changes = not importing and has_defaults_or_overrides(basis.config)
    found = None if changes else same(state, row, candidate, basis.kept, normalize)
    if found is None and not importing:
        row = populated(row, basis.kept, basis.config)
        found = same(state, row, candidate, basis.kept, normalize)
    if found is not None and number in (None, found.id) and not state.is_of_another(found):
        return found
    _check_mode(state, subject, importing, number)
    if found is not None and not importing:
        return replace(found, id=0)
    if not importing:
        level = str(basis.config["compatibilityLevel"])
        compared = in_group(basis.config, row, basis.kept)
        if reasons := reasons_against(state, level, row, candidate, compared):
            raise failure.incompatible(subject, reasons)
    return row


def _check_mode(state: State, subject: str, importing: bool, number: int | None) -> None:
    """Raises Failure in a mode without writes, and for an import without an id or an id without an
    import."""
    check_writable(state, subject)
    if importing != (number is not None):
        raise failure.operation_not_permitted(
            f"Subject {subject} is {'' if importing else 'not '}in import mode"
        )


def _written(
    topic: SchemaTopic, caller: Caller, state: State, row: SchemaRow, body: Mapping[str, Any]
) -> SchemaRow:
    """A new row with its id, whose record is written. Raises Failure."""
    number = _given(body, "id")
    _check_contexts(state, row.subject)
    row = _numbered(topic, state, row, number, _given(body, "version"))
    for _ in range(TRIES):
        is_new = topic.unread.add(row)
        try:
            state = topic.write(caller, _records(state, row))
        except NotWritten:
            if is_new:  # else it may have been written before
                topic.unread.remove(row)
            raise
        topic.unread.settle(state)
        if not state.is_of_another(row):
            return row
        if number is not None:
            raise _overwrites(number)
        row = replace(row, id=_own_id(topic, state, row))  # another registry was first
    raise failure.busy("other registries give the same ids")


def _records(state: State, row: SchemaRow) -> list[Row]:
    """The record of a row, and those that keep ids where it replaces a version: the highest id, if
    an import gives the version another one, and rows of other schemas with the id of a deleted
    version that an import repeats."""
    stored = state.version(row.subject, row.version)
    replaced = [stored] if stored is not None and stored.id != row.id else []
    return [*(highest_ids(state, replaced) if replaced else ()), *written_again(state, row)]


def _check_contexts(state: State, subject: str) -> None:
    """Raises Failure if the subject is in a new context, and there are too many."""
    context = context_of(subject)
    if context in state.last_ids:
        return
    if len(dump({**state.last_ids, context: LARGEST})) > MAX_CONTEXTS_BYTES:
        text = f"too many contexts: {len(state.last_ids):,}, with those whose schemas were deleted"
        raise failure.operation_not_permitted(text)


def _given(body: Mapping[str, Any], name: str) -> int | None:
    number = body.get(name)
    if number is None or number == -1 or (name == "version" and number == 0):
        return None
    if type(number) is not int or not 0 < number <= LARGEST:
        raise (
            failure.invalid_version(str(number))
            if name == "version"
            else failure.invalid_schema(f"id {number}")
        )
    return number


def _numbered(
    topic: SchemaTopic, state: State, row: SchemaRow, number: int | None, version: int | None
) -> SchemaRow:
    """Set id and version: those of an import, else the id of the same schema in its context, else
    the next id. A row that has a version keeps it."""
    topic.unread.settle(state)
    own = row.version or _own_version(topic, state, row)
    if number is None:
        if version not in (None, own):
            raise failure.invalid_schema("Version is not one more than previous version")
        return replace(row, id=_own_id(topic, state, row), version=own)
    row = replace(row, id=number, version=version or own)
    if state.is_of_another(row) or topic.unread.is_of_another(row):
        raise _overwrites(number)
    return row


def _overwrites(number: int) -> failure.Failure:
    return failure.operation_not_permitted(f"Overwrite new schema with id {number} is not permitted.")


def _own_version(topic: SchemaTopic, state: State, row: SchemaRow) -> int:
    """The version that the same schema got and whose record is not read yet, unless another
    registry has used it since; else the next one of the subject."""
    unread = topic.unread
    version = unread.version_of(row)
    if version is not None:
        stored = state.version(row.subject, version)
        if stored is None or stored.digest == row.digest:
            return version
    return max(state.next_version(row.subject), unread.last_version(row.subject) + 1)


def _own_id(topic: SchemaTopic, state: State, row: SchemaRow) -> int:
    """The id of the same schema in its context, else the next one. Raises Failure."""
    number = topic.unread.id_of(row)
    if number is not None and state.is_of_another(row, number):
        number = None
    return state.id_of(row) or number or _next_id(topic, state, row.subject)


def _next_id(topic: SchemaTopic, state: State, subject: str) -> int:
    """The lowest id that no schema of the context got from this registry, or has in the topic.
    Raises Failure."""
    context = context_of(subject)
    last = max(state.last_ids.get(context, 0), topic.unread.last_id(context))
    if last >= LARGEST:
        raise failure.operation_not_permitted(f"no id is left in context {context}")
    return last + 1

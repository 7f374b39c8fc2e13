"""The registry's operations on subjects and versions: each reads the topic to its end first."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from kbroker.config.whole_numbers import whole_number
from kbroker.http.console.caller import Caller
from kbroker.http.registry import failure, metadata
from kbroker.http.registry.compatibility import (
    TOO_LONG,
    comparison_deadline,
    parsed,
    parsed_row,
    reasons_against,
    resolve,
)
from kbroker.http.registry.formats import InvalidSchema, Parsed
from kbroker.http.registry.levels import check_writable, inherited, level_of
from kbroker.http.registry.names import context_of, qualified
from kbroker.http.registry.state import State
from kbroker.http.registry.topic import Row, SchemaTopic
from kbroker.http.registry.topic_records import (
    LAST_IDS,
    LAST_IDS_KEY,
    SCHEMA_MEMBERS,
    Malformed,
    Reference,
    SchemaRow,
    config_key,
    delete_key,
    dump,
    mode_key,
)

LARGEST = 2**31 - 1


def schema_of(subject: str, body: Mapping[str, Any]) -> SchemaRow:
    """The schema in a request, not yet parsed. Raises Failure."""
    text, kind = body.get("schema"), body.get("schemaType") or "AVRO"
    if not isinstance(text, str) or not text.strip():
        raise failure.invalid_schema("Empty schema")
    try:
        references = tuple(Reference.from_json(one) for one in body.get("references") or ())
    except (Malformed, TypeError) as error:
        raise failure.invalid_schema(str(error)) from None
    extra = tuple((name, body[name]) for name in SCHEMA_MEMBERS if body.get(name) is not None)
    return SchemaRow(subject, 0, 0, text, str(kind), references, False, extra)


def parse_candidate(state: State, row: SchemaRow, normalize: bool) -> tuple[SchemaRow, Parsed]:
    """Parse the schema; returns it with its canonical text. Raises Failure."""
    try:
        found = parsed(row.schema_type, row.schema, resolve(state, row.subject, row.references))
    except InvalidSchema as error:
        raise failure.invalid_schema(f"Invalid schema {row.schema_type}: {error}") from None
    text = found.normal_text() if normalize else found.canonical
    return replace(row, schema=text, references=with_versions(state, row)), found


def with_versions(state: State, row: SchemaRow) -> tuple[Reference, ...]:
    """The references of a schema, to the latest versions where it names none. Raises Failure."""
    return tuple(
        Reference(one.name, one.subject, _latest(state, row.subject, one)) if one.version == -1 else one
        for one in row.references
    )


def _latest(state: State, subject: str, reference: Reference) -> int:
    row = state.version(qualified(context_of(subject), reference.subject), -1)
    if row is None:  # deleted since it was resolved
        raise failure.invalid_schema(f"No schema of subject {reference.subject} is left to refer to")
    return row.version


def same(
    state: State, row: SchemaRow, candidate: Parsed, kept: Sequence[SchemaRow], normalize: bool
) -> SchemaRow | None:
    """The newest stored version with this schema. Raises Failure."""
    deadline = comparison_deadline()
    for one in reversed(kept):
        if one.digest == row.digest:
            return one
        if normalize and deadline.is_over:
            raise failure.invalid_schema(TOO_LONG)
        comparable = (one.schema_type, one.references, one.members) == (
            row.schema_type,
            row.references,
            row.members,
        )
        if normalize and comparable and parsed_row(state, one).normalized() == candidate.normalized():
            return one
    return None


def version_number(given: str) -> int:
    """A version in a path; -1 for the latest. Raises Failure."""
    if given in ("latest", "-1"):
        return -1
    version = whole_number(given, LARGEST)
    if not version:
        raise failure.invalid_version(given)
    return version


def version_of(state: State, subject: str, given: str, deleted: bool = False) -> SchemaRow:
    """One version of a subject. Raises Failure."""
    number = version_number(given)
    rows = state.versions(subject, deleted)
    if not rows:
        raise failure.subject_not_found(subject)
    if number == -1:
        return rows[-1]
    for row in rows:
        if row.version == number:
            return row
    raise failure.version_not_found(number)


def latest_with(
    state: State, subject: str, properties: Mapping[str, str], deleted: bool = False
) -> SchemaRow:
    """The latest version of a subject whose metadata have all these properties. Raises Failure."""
    rows = state.versions(subject, deleted)
    if not rows:
        raise failure.subject_not_found(subject)
    for row in reversed(rows):
        found = metadata.properties(row)
        if found is not None and properties.items() <= found.items():
            return row
    raise failure.schema_not_found()


def test_compatibility(
    topic: SchemaTopic,
    caller: Caller,
    subject: str,
    given: str | None,
    body: Mapping[str, Any],
    normalize: bool,
) -> list[str]:
    """Reasons why a schema is incompatible with a version, or with all versions that the level
    compares (None). Raises Failure."""
    state = topic.refresh(caller)
    level = level_of(state, subject)
    rows = state.versions(subject)
    if given is not None:
        rows = [version_of(state, subject, given)] if rows or given != "latest" else []
        level = level.removesuffix("_TRANSITIVE")
    row, candidate = parse_candidate(state, schema_of(subject, body), normalize)
    rows = metadata.in_group(inherited(state, subject), row, rows)
    return reasons_against(state, level, row, candidate, rows)


def delete_version(topic: SchemaTopic, caller: Caller, subject: str, given: str, permanent: bool) -> int:
    """Marks a version as deleted, or removes a marked one. Raises Failure."""
    with topic.changing(caller) as state:
        check_writable(state, subject)
        row = (
            version_of(state, subject, given, deleted=True)
            if given != "latest"
            else version_of(state, subject, given)
        )
        if row.deleted and not permanent:
            raise failure.version_soft_deleted(subject, row.version)
        if permanent and not row.deleted:
            raise failure.version_not_soft_deleted(subject, row.version)
        _check_unreferenced(state, row)
        if permanent:
            topic.write(caller, _removal(state, [row]))
        else:
            topic.write(caller, written_again(state, row.with_deleted(True)))
        return row.version


def delete_subject(topic: SchemaTopic, caller: Caller, subject: str, permanent: bool) -> list[int]:
    """Marks all versions of a subject as deleted, or removes them. Raises Failure."""
    with topic.changing(caller) as state:
        check_writable(state, subject)
        rows = state.versions(subject, deleted=True)
        alive = [row for row in rows if not row.deleted]
        if not rows:
            raise failure.subject_not_found(subject)
        if permanent and alive:
            raise failure.subject_not_soft_deleted(subject)
        if not permanent and not alive:
            raise failure.subject_soft_deleted(subject)
        for row in rows if permanent else alive:
            _check_unreferenced(state, row)
        changes: list[Row]
        if permanent:
            changes = _removal(state, rows)
            changes += [(config_key(subject), None)] if subject in state.levels else []
            changes += [(mode_key(subject), None)] if subject in state.modes else []
        else:
            # of all: compaction removes the earlier record, which may have marked later versions
            changes = [(delete_key(subject), dump({"subject": subject, "version": rows[-1].version}))]
        topic.write(caller, changes)
        return [row.version for row in (rows if permanent else alive)]


def _removal(state: State, rows: Sequence[SchemaRow]) -> list[Row]:
    """The records that remove these versions. No other schema ever gets their ids."""
    return [*highest_ids(state, rows), *((row.key(), None) for row in rows)]


def written_again(state: State, row: SchemaRow) -> list[Row]:
    """The record of a row, and after it those of other schemas that keep its id."""
    return [(one.key(), one.value()) for one in (row, *state.later_of_others(row))]


def highest_ids(state: State, removed: Sequence[SchemaRow]) -> list[Row]:
    """The record that keeps the highest ids that no version has once these are removed, if there
    are any."""
    kept = state.ids_without_rows(removed)
    return [(LAST_IDS_KEY, dump({LAST_IDS: kept}))] if kept else []


def _check_unreferenced(state: State, row: SchemaRow) -> None:
    if state.referencing(row.subject, row.version):
        key = f"{{magic=1,keytype=SCHEMA,subject={row.subject},version={row.version}}}"
        raise failure.unprocessable(42206, f"One or more references exist to the schema {key}.")

"""The state that results from the records of `_schemas`. Pure."""

import logging
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from kbroker.http.registry.names import context_of
from kbroker.http.registry.topic_records import LAST_IDS, Malformed, SchemaRow, load

log = logging.getLogger(__name__)


class State:
    """Runs in: http. Owner: the registry; changed only by `apply`, under a lock of
    the topic.

    subjects: rows by subject and version, including deleted ones. ids: rows by context and id, in
    the order of their last records, which compaction keeps. identities: ids by digest of a schema;
    imports may give them several. levels, modes: by subject; None: the registry's, `:.name:`: those
    of a context."""

    def __init__(self) -> None:
        self.subjects: dict[str, dict[int, SchemaRow]] = {}
        self.ids: dict[str, dict[int, list[SchemaRow]]] = defaultdict(dict)
        self.identities: dict[str, dict[bytes, list[int]]] = defaultdict(dict)
        self.levels: dict[str | None, dict[str, Any]] = {}
        self.modes: dict[str | None, str] = {}
        self.contexts: set[str] = {"."}
        self.last_ids: dict[str, int] = {}

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """One record. A record that cannot be parsed is ignored: another registry may know it."""
        try:
            name = load(key or b"")
            self._apply(name, None if value is None else load(value))
        except (Malformed, KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
            log.warning("ignored an invalid record of the schema topic: %s", error)

    def _apply(self, key: dict[str, Any], value: dict[str, Any] | None) -> None:
        kind = key.get("keytype")
        if kind == "SCHEMA":
            self._schema(str(key["subject"]), int(key["version"]), value)
        elif kind == "CONFIG":
            self._set(self.levels, key.get("subject"), value)
        elif kind == "MODE":
            self._set(self.modes, key.get("subject"), None if value is None else str(value["mode"]))
        elif kind == "DELETE_SUBJECT" and value is not None:
            for version, row in list(self.subjects.get(str(key["subject"]), {}).items()):
                if version <= int(value["version"]):
                    self._put(row.with_deleted(True))
        elif kind == "NOOP" and value is not None:
            for context, number in dict(value.get(LAST_IDS) or {}).items():
                self.last_ids[context] = max(self.last_ids.get(context, 0), int(number))

    def _set(self, table: dict[str | None, Any], subject: str | None, value: Any) -> None:
        if value is None:
            table.pop(subject, None)
        else:
            table[subject] = value

    def _schema(self, subject: str, version: int, value: dict[str, Any] | None) -> None:
        if value is not None:
            self._put(SchemaRow.from_json(value), is_record=True)
            return
        row = self.subjects.get(subject, {}).pop(version, None)
        if row is None:
            return
        if not self.subjects[subject]:
            del self.subjects[subject]
        rows = self.ids[context_of(subject)].get(row.id, [])
        rows[:] = [one for one in rows if (one.subject, one.version) != (subject, version)]
        if not rows:
            self.ids[context_of(subject)].pop(row.id, None)
        if all(one.digest != row.digest for one in rows):
            self._forget_id(self.identities[context_of(subject)], row)

    @staticmethod
    def _forget_id(identities: dict[bytes, list[int]], row: SchemaRow) -> None:
        numbers = identities.get(row.digest, [])
        if row.id in numbers:
            numbers.remove(row.id)
            if not numbers:
                del identities[row.digest]

    def _put(self, row: SchemaRow, is_record: bool = False) -> None:
        """is_record: of its own. It is the last one: compaction removes earlier ones of its key."""
        digest = row.digest  # before anything changes: members may be nested too deeply for it
        context = context_of(row.subject)
        self.contexts.add(context)
        versions = self.subjects.setdefault(row.subject, {})
        before = versions.get(row.version)
        if before is not None and (before.id, before.digest) != (row.id, digest):
            self._schema(row.subject, row.version, None)
            before, versions = None, self.subjects.setdefault(row.subject, {})
        versions[row.version] = row
        rows = self.ids[context].setdefault(row.id, [])
        if before is None:
            rows.append(row)
        elif is_record:  # a new list: readers have no lock
            self.ids[context][row.id] = [*(one for one in rows if one is not before), row]
        else:
            self.ids[context][row.id] = [row if one is before else one for one in rows]
        numbers = self.identities[context].setdefault(digest, [])
        if row.id not in numbers:
            numbers.append(row.id)
        self.last_ids[context] = max(self.last_ids.get(context, 0), row.id)

    def versions(self, subject: str, deleted: bool = False) -> list[SchemaRow]:
        """Rows of a subject in order of their versions."""
        rows = dict(self.subjects.get(subject, {}))  # readers have no lock
        return [rows[number] for number in sorted(rows) if deleted or not rows[number].deleted]

    def version(self, subject: str, number: int) -> SchemaRow | None:
        """One version of a subject, also a deleted one; -1: the latest that is not deleted."""
        if number != -1:
            return self.subjects.get(subject, {}).get(number)
        kept = self.versions(subject)
        return kept[-1] if kept else None

    def id_of(self, row: SchemaRow) -> int | None:
        """The lowest id of a schema in its context that was not another schema's before."""
        numbers = self.identities.get(context_of(row.subject), {}).get(row.digest, ())
        return min((one for one in numbers if not self.is_of_another(row, one)), default=None)

    def is_of_another(self, row: SchemaRow, number: int = 0) -> bool:
        """Whether an id (0: that of the row) is that of another schema, whose record is before it
        in the topic."""
        rows = self.ids.get(context_of(row.subject), {}).get(number or row.id, ())
        first = next(iter(rows), None)  # readers have no lock: rows may become empty
        return first is not None and first.digest != row.digest

    def later_of_others(self, row: SchemaRow) -> list[SchemaRow]:
        """Rows of other schemas with the id of a row, in records after its own, if it has one with
        this id: the id becomes theirs if that is written again, and they are not."""
        rows = self.ids.get(context_of(row.subject), {}).get(row.id, [])
        places = [(one.subject, one.version) for one in rows]
        if (row.subject, row.version) not in places:
            return []
        later = rows[places.index((row.subject, row.version)) + 1 :]
        return [one for one in later if one.digest != row.digest]

    def ids_without_rows(self, removed: Sequence[SchemaRow]) -> dict[str, int]:
        """The highest ids by context, of those contexts where no row has it once these are
        removed."""
        gone = {(row.subject, row.version) for row in removed}
        return {
            context: number
            for context, number in dict(self.last_ids).items()
            if all((one.subject, one.version) in gone for one in self.ids.get(context, {}).get(number, ()))
        }

    def next_version(self, subject: str) -> int:
        """Deleted versions count unless they are deleted permanently."""
        return max(self.subjects.get(subject, {0: None})) + 1

    def referencing(self, subject: str, version: int) -> list[int]:
        """Ids of schemas that refer to a version and are not deleted."""
        found = {
            row.id
            for rows in dict(self.subjects).values()  # readers have no lock
            for row in dict(rows).values()
            if not row.deleted
            and any(one.subject == subject and one.version == version for one in row.references)
        }
        return sorted(found)

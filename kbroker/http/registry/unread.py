"""Ids and versions that were given to schemas whose records are not read back yet."""

from collections import OrderedDict
from typing import Final

from msgspec import Struct

from kbroker.http.registry.names import context_of
from kbroker.http.registry.state import State
from kbroker.http.registry.topic_records import SchemaRow

MAX_ROWS: Final = 1000
"""The oldest ones are dropped: their writes failed many writes ago."""


class _Given(Struct, frozen=True):
    """The id of a schema in its context."""

    context: str
    digest: bytes
    id: int


class UnreadRows:
    """Runs in: http. Owner: the registry; used under a lock of the topic.

    A write without an answer may be in the log later. Until its record is read, the same schema
    gets the same id and version again, and no other schema gets them."""

    def __init__(self) -> None:
        self._rows: OrderedDict[tuple[str, int], _Given] = OrderedDict()

    def add(self, row: SchemaRow) -> bool:
        """The record of a row is about to be written; returns whether no row has its subject and
        version yet."""
        key = row.subject, row.version
        before = self._rows.pop(key, None)
        self._rows[key] = _Given(context_of(row.subject), row.digest, row.id)
        while len(self._rows) > MAX_ROWS:
            self._rows.popitem(last=False)
        return before is None

    def remove(self, row: SchemaRow) -> None:
        """The record of a row will never be written."""
        self._rows.pop((row.subject, row.version), None)

    def settle(self, state: State) -> None:
        """Drop the rows that the state has."""
        for (subject, version), given in list(self._rows.items()):
            row = state.subjects.get(subject, {}).get(version)
            if row is not None and (row.id, row.digest) == (given.id, given.digest):
                del self._rows[subject, version]

    def id_of(self, row: SchemaRow) -> int | None:
        """The id that the same schema got in its context."""
        context = context_of(row.subject)
        same = (one for one in self._rows.values() if (one.context, one.digest) == (context, row.digest))
        return next((one.id for one in same), None)

    def version_of(self, row: SchemaRow) -> int | None:
        """The version that the same schema got in its subject."""
        for (subject, version), given in self._rows.items():
            if subject == row.subject and given.digest == row.digest:
                return version
        return None

    def is_of_another(self, row: SchemaRow) -> bool:
        """Whether another schema got the id of a row in its context, or its version."""
        context = context_of(row.subject)
        return any(
            one.digest != row.digest
            and ((one.context, one.id) == (context, row.id) or key == (row.subject, row.version))
            for key, one in self._rows.items()
        )

    def last_id(self, context: str) -> int:
        """The highest id in a context; 0 if there is none."""
        return max((one.id for one in self._rows.values() if one.context == context), default=0)

    def last_version(self, subject: str) -> int:
        """The highest version in a subject; 0 if there is none."""
        return max((version for name, version in self._rows if name == subject), default=0)

"""Whether a schema may follow the versions of a subject."""

from collections.abc import Sequence

from kbroker.http.registry.deadline import Deadline
from kbroker.http.registry.failure import Failure, invalid_schema, schema_not_found, unprocessable
from kbroker.http.registry.formats import InvalidSchema, Parsed, parse
from kbroker.http.registry.names import context_of, qualified
from kbroker.http.registry.schema_cache import SchemaCache
from kbroker.http.registry.state import State
from kbroker.http.registry.topic_records import Reference, SchemaRow

MAX_REFERENCES = 1000
MAX_S = 10.0
"""Time limit for the comparisons of one request."""
TOO_LONG = f"Comparing with all versions takes more than {MAX_S:.0f} s"
MAX_DEPTH = 100
"""Maximum length of a chain of references."""
MAX_FOLLOWED = 10 * MAX_REFERENCES
"""Maximum of references that are followed from a schema, even if many have the same name."""

References = tuple[tuple[str, str], ...]
_PARSED: SchemaCache[tuple[str, str, References], Parsed] = SchemaCache()


def parsed(schema_type: str, text: str, references: References) -> Parsed:
    """Parse a schema; the result is cached. Raises InvalidSchema, Failure."""
    key = schema_type, text, references
    found = _PARSED.get(key)
    if found is None:
        found = parse(schema_type, text, dict(references))
        _PARSED.put(key, found, len(text) + sum(len(one) for _, one in references))
    return found


def comparison_deadline() -> Deadline:
    """The time limit for the comparisons of one request."""
    return Deadline(MAX_S)


def resolve(state: State, subject: str, references: Sequence[Reference]) -> References:
    """(name, text) of all schemas that references lead to, each after those that it refers to.
    Raises Failure."""
    found = _Resolution(state, context_of(subject))
    found.follow(references, set())
    return tuple(found.texts.items())


class _Resolution:
    """The schemas that references lead to, and the number of references that were followed."""

    def __init__(self, state: State, context: str) -> None:
        self.texts: dict[str, str] = {}
        self._state = state
        self._context = context
        self._followed = 0

    def follow(self, references: Sequence[Reference], open_: set[tuple[str, int]]) -> None:
        """Raises Failure."""
        for one in references:
            name = qualified(self._context, one.subject)
            row = self._state.version(name, one.version)
            if row is None:
                raise invalid_schema(
                    f'No schema reference found for subject "{one.subject}" and version {one.version}'
                )
            self._followed += 1
            place = (name, row.version)
            many = len(self.texts) > MAX_REFERENCES or self._followed > MAX_FOLLOWED
            if place in open_ or len(open_) >= MAX_DEPTH or many:
                raise invalid_schema(f"references of {one.subject} lead back to it, or are too many")
            if one.name not in self.texts:
                self.follow(row.references, open_ | {place})
                self.texts[one.name] = row.schema


def parsed_row(state: State, row: SchemaRow) -> Parsed:
    """The parsed schema of a stored version. Raises Failure."""
    try:
        return parsed(row.schema_type, row.schema, resolve(state, row.subject, row.references))
    except InvalidSchema as error:
        raise unprocessable(42201, f"version {row.version} of {row.subject} is invalid: {error}") from error


def reasons_against(
    state: State, level: str, new: SchemaRow, candidate: Parsed, rows: Sequence[SchemaRow]
) -> list[str]:
    """Reasons why a schema is incompatible with these versions (oldest first) at a level; empty if
    it is compatible."""
    if level == "NONE" or not rows:
        return []
    deadline = comparison_deadline()
    for row in reversed(rows if level.endswith("_TRANSITIVE") else rows[-1:]):
        if row.schema_type != new.schema_type:
            return [f"Incompatible because of different schema type: {row.schema_type} and {new.schema_type}"]
        if deadline.is_over:
            return [TOO_LONG]
        try:
            old = parsed_row(state, row)
        except Failure as failure:
            if failure.is_busy:
                raise
            return [failure.text]
        reasons = []
        if level.startswith(("BACKWARD", "FULL")):
            reasons += candidate.reads(old)
        if level.startswith(("FORWARD", "FULL")):
            reasons += old.reads(candidate)
        if reasons:
            version = f"{{oldSchemaVersion: {row.version}}}"
            return [*reasons, version, f"{{oldSchema: '{row.schema}'}}", f"{{compatibility: '{level}'}}"]
    return []


def find(state: State, subject: str, number: int) -> SchemaRow:
    """The first row with an id, in the subject's context if possible, else in any. Raises
    Failure."""
    contexts = [context_of(subject), *sorted(state.contexts)]
    for context in contexts:
        if rows := state.ids.get(context, {}).get(number):
            return rows[0]
    raise schema_not_found(number)

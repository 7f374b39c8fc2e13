"""Records of a topic whose keys or values must name a schema that is registered for them.

Runs in: network; pure. A key or value names its schema in Confluent's format: a byte 0 and four
bytes of an id. Null ones name none and need none.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from kbroker.ipc.schema_rules import SchemaRules, Strategy
from kbroker.net.produce.record_stream import PREFIX_BYTES, prefixes
from kbroker.net.produce.registered_schemas import Registered
from kbroker.protocol.records import RecordBatch

MAGIC: Final = 0
MAX_IDS: Final = 1024
"""Maximum number of ids of one batch whose results are cached."""


class SchemaDemand(NamedTuple):
    """topic: its name. rules: of the topic. known: what is registered."""

    topic: str
    rules: SchemaRules
    known: Registered


def faults(batch: RecordBatch, demand: SchemaDemand) -> Iterator[tuple[int, str | None]]:
    """Yield the number of each record, and what is wrong with it or None. Raises ProtocolError for
    a damaged batch."""
    of_key = lru_cache(MAX_IDS)(lambda start: _fault(start, demand, "key", demand.rules.key))
    of_value = lru_cache(MAX_IDS)(lambda start: _fault(start, demand, "value", demand.rules.value))
    for index, (key, value) in enumerate(prefixes(batch)):
        yield index, of_key(key) or of_value(value)


def _fault(start: bytes | None, demand: SchemaDemand, part: str, strategy: Strategy | None) -> str | None:
    """start: the first bytes of a key or value, None of a null one."""
    if strategy is None or start is None:
        return None
    if len(start) < PREFIX_BYTES or start[0] != MAGIC:
        return f"The {part} does not begin with the id of a schema, which topic {demand.topic} requires"
    schema_id = int.from_bytes(start[1:PREFIX_BYTES], signed=True)
    if demand.known.has(schema_id, strategy, demand.topic, part):
        return None
    if demand.known.is_empty:
        return f"No schema is registered, and topic {demand.topic} requires one for the {part}"
    return f"Schema {schema_id} is not registered for the {part} in topic {demand.topic} ({_NAMES[strategy]})"


_NAMES = {
    Strategy.TOPIC_NAME: "TopicNameStrategy",
    Strategy.RECORD_NAME: "RecordNameStrategy",
    Strategy.TOPIC_RECORD_NAME: "TopicRecordNameStrategy",
}

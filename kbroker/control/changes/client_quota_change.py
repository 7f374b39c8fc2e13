"""Client quota changes are checked, stored, sent to the network processes, then answered (KIP-546).

Kafka's ClientQuotaControlManager: each entity fails on its own; the valid part of a request is
stored together.
"""

from collections.abc import Container, Mapping, Sequence
from itertools import islice
from typing import Final

from msgspec import Struct

from kbroker.config.client_quotas import (
    IP,
    Entity,
    QuotaError,
    QuotaTable,
    check_entity,
    check_value,
    is_address,
)
from kbroker.control.broker import Broker
from kbroker.control.images import quota_image
from kbroker.control.store.change import MAX_CHANGES, Change
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.slices import Table, distinct, paced

ENTITIES_AT_ONCE: Final = 256
"""Maximum of entities in one image: a network process applies it in a millisecond or two, between
requests."""
Operations = list[tuple[str, float | None]]
"""(key, new value), None to remove."""


class QuotaAlteration(Struct, frozen=True):
    """The alteration of one entity's quotas."""

    entity: Entity
    operations: Operations


async def alter_client_quotas(
    broker: Broker, alterations: Sequence[QuotaAlteration], validate_only: bool
) -> Table[Entity, str | None]:
    """Apply alterations; returns for each entity None, or the reason for its refusal (all
    INVALID_REQUEST).

    Raises KafkaError when nothing could be stored. Names are resolved before others' changes have
    to wait."""
    unresolved = await broker.host_names.unresolved(_host_names(alterations))
    async with broker.changing:
        results: Table[Entity, str | None] = Table()
        changes: dict[Entity, dict[str, float | None]] = {}
        size = 0
        for alteration in paced(alterations):
            entity = alteration.entity
            if entity in results or _changes_a_key_twice(alteration.operations):
                results[entity] = f"Ignoring duplicate entity {_shown(entity)}"
                continue
            try:
                change = _checked(broker, alteration, unresolved)
                results[entity] = None
            except QuotaError as error:
                results[entity] = str(error)
                continue
            if change and not validate_only:
                changes[entity] = change
                size += len(change)
                _check_size(size, results)
        if changes:
            await _apply(broker, changes)
        return results


def _changes_a_key_twice(operations: Operations) -> bool:
    return sum(1 for _ in distinct(key for key, _ in operations)) < len(operations)


def _check_size(size: int, results: Table[Entity, str | None]) -> None:
    if size > MAX_CHANGES:
        results.clear()
        text = f"One request may change {MAX_CHANGES} quotas."
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, text)


def _host_names(alterations: Sequence[QuotaAlteration]) -> dict[str, None]:
    """The names of hosts whose quotas are altered, in their order."""
    return dict.fromkeys(
        name
        for alteration in paced(alterations)
        for kind, name in alteration.entity
        if kind == IP and name and not is_address(name)
    )


def _checked(
    broker: Broker, alteration: QuotaAlteration, unresolved: Container[str]
) -> dict[str, float | None]:
    """The keys that the alteration really changes. Raises QuotaError."""
    entity = alteration.entity
    keys = check_entity(entity)
    for kind, name in entity:
        if kind == IP and name is not None and name in unresolved:
            raise QuotaError(f"{name} is not a valid IP or resolvable host.")
    current = broker.quotas.quotas.get(entity, {})
    changed: dict[str, float | None] = {}
    for key, value in paced(alteration.operations):
        if value is not None:
            check_value(keys, key, value)
        if current.get(key) != value:
            changed[key] = value
    return changed


async def _apply(broker: Broker, changes: dict[Entity, dict[str, float | None]]) -> None:
    await broker.in_store(lambda store: store.apply(Change(client_quotas=changes)))
    source = iter(changes.items())
    while some := dict(islice(source, ENTITIES_AT_ONCE)):
        changed = _merged(broker.quotas.quotas, some)
        broker.quotas.merge(changed)
        broker.settings_changed()
        await broker.links.announce(quota_image(broker, changed))


def _merged(
    before: Mapping[Entity, Mapping[str, float]], changes: dict[Entity, dict[str, float | None]]
) -> QuotaTable:
    """All quotas of the changed entities."""
    merged = {entity: {**before.get(entity, {}), **change} for entity, change in changes.items()}
    return QuotaTable(
        {
            entity: {key: value for key, value in values.items() if value is not None}
            for entity, values in merged.items()
        }
    )


def _shown(entity: Entity) -> str:
    """The entity as Java prints it."""
    pairs = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in entity)
    return f"ClientQuotaEntity(entries={{{pairs}}})"

"""Dynamic config changes are checked, stored, sent to the processes that use them, then visible and
answered."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from kbroker.config.alter import (
    INVALID_REQUEST,
    MIN_ISR,
    Alteration,
    AlterError,
    alter_broker,
    alter_client_metrics,
    alter_group,
    alter_topic,
    invalid_update,
    replacing,
)
from kbroker.config.broker import row_of
from kbroker.config.setting import ConfigError
from kbroker.config.telemetry import takes_telemetry
from kbroker.control.broker import Broker
from kbroker.control.images import next_image
from kbroker.control.links.links import CALLS_AT_ONCE, bounded
from kbroker.control.metadata.catalogue import Replica
from kbroker.control.metadata.clamp import broker_min_isr_note, is_clamped, min_isr_note
from kbroker.control.metadata.config_resource import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from kbroker.control.metadata.eligible_leaders import are_on, one_min_isr
from kbroker.control.metadata.topic_name import WRITTEN_HERE, validate
from kbroker.control.metadata.topic_plan import too_many_records
from kbroker.control.store.change import MAX_CHANGES, Change, ConfigKey
from kbroker.ipc.layout import SlotState
from kbroker.ipc.messages import ConfigurePartition, Settings
from kbroker.ipc.replication_rates import FOLLOWER, LEADER, ReplicationRates
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.slices import emptying, paced

log = logging.getLogger(__name__)

SITE_SETTINGS = ".replication.throttled.rate"
APPLY_S: Final = 5.0
"""Seconds that a change waits for the IO workers. One that hangs applies it when it continues;
Kafka waits for no broker."""


async def alter(
    broker: Broker, kind: int, name: str, alterations: Sequence[Alteration], validate_only: bool
) -> None:
    """Apply operations to the configs of one resource. Raises KafkaError."""
    async with broker.changing:
        await _alter(broker, kind, name, alterations, validate_only)


async def replace(
    broker: Broker, kind: int, name: str, pairs: Iterable[tuple[str, str | None]], validate_only: bool
) -> None:
    """Set the configs of one resource to these and no others (legacy AlterConfigs). Raises
    KafkaError."""
    async with broker.changing:
        alterations = replacing(broker.override(kind, name), pairs)
        with emptying(alterations):
            await _alter(broker, kind, name, alterations, validate_only)


async def _alter(
    broker: Broker, kind: int, name: str, alterations: Sequence[Alteration], validate_only: bool
) -> None:
    try:
        changed = _changed(broker, kind, name, alterations)
        if kind == BROKER and broker.listeners.settings:
            await _check_usable(broker, name, changed)
    except AlterError as error:
        raise KafkaError(ErrorCode(error.code), error.message) from None
    before = broker.override(kind, name)
    difference: dict[str, str | None] = {
        key: value for key, value in changed.items() if before.get(key) != value
    }
    difference |= dict.fromkeys(key for key in before if key not in changed)
    if validate_only or not difference:
        return
    await _apply(broker, {(kind, name): difference})
    if kind == BROKER and (later := _at_next_start(difference)):
        log.warning("stored, and in force from the next start of the broker on: %s", ", ".join(later))
    if kind == CLIENT_METRICS and not takes_telemetry(broker.config):
        log.warning(
            "the client metrics subscription %s has no effect: this broker does not accept metrics of clients "
            "(kbroker.client.telemetry.enable)",
            name,
        )
    if MIN_ISR in difference and (note := _min_isr_note(broker, kind, name)):
        log.warning("%s", note)


def _at_next_start(names: Iterable[str]) -> list[str]:
    """The settings among these that a running broker only stores."""
    rows = (row_of(name) for name in paced(names))
    return sorted({row.name for row in rows if row is not None and row.at_next_start})


def _min_isr_note(broker: Broker, kind: int, name: str) -> str:
    """The note that a new min.insync.replicas exceeds the number of replicas; empty when it does
    not."""
    if kind == BROKER:
        return broker_min_isr_note(broker.config, len(broker.nodes.sites))
    if kind != TOPIC or not is_clamped(name, broker.config, len(broker.nodes.sites)):
        return ""
    replicas = min(len(partition.replicas) for partition in broker.catalogue.topics[name].partitions)
    return min_isr_note(name, broker.override(kind, name), replicas)


async def share_min_isr(broker: Broker) -> None:
    """Eligible leader replicas are on now. The caller holds `broker.changing`."""
    if changes := one_min_isr(broker.overrides, broker.config.static):
        await _apply(broker, changes)


async def _apply(broker: Broker, differences: dict[ConfigKey, dict[str, str | None]]) -> None:
    await broker.in_store(lambda store: store.apply(Change(configs=differences)))
    for (kind, name), difference in differences.items():
        merged = {**broker.override(kind, name), **difference}
        if left := {key: value for key, value in merged.items() if value is not None}:
            broker.overrides[kind, name] = left
        else:
            broker.overrides.pop((kind, name), None)
    broker.settings_changed()
    if any(kind == BROKER for kind, _ in differences):
        await _broker_changed(broker)
    await _topics_changed(broker, [name for kind, name in differences if kind == TOPIC])
    for kind, name in differences:
        for listener in broker.listeners.config:
            listener(kind, name)


def _changed(broker: Broker, kind: int, name: str, alterations: Sequence[Alteration]) -> dict[str, str]:
    """The resource's configs after the operations. Raises AlterError or KafkaError."""
    if kind == TOPIC:
        changed = alter_topic(broker.override(kind, name), alterations, broker.config, name in WRITTEN_HERE)
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        if broker.catalogue.get(name) is None:
            validate(name)
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        return changed
    if kind == BROKER:
        if name in [str(site.node_id) for site in broker.nodes.sites[1:]]:
            return _changed_site(broker, name, alterations)
        if len(alterations) > MAX_CHANGES:
            raise too_many_records()
        return alter_broker(name, alterations, broker.config, are_on(broker.features))
    if kind == GROUP:
        return alter_group(name, broker.override(kind, name), alterations, broker.config)
    if kind == CLIENT_METRICS:
        return alter_client_metrics(name, broker.override(kind, name), alterations)
    assert kind != BROKER_LOGGER, "levels of loggers are not stored"
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")


async def _check_usable(broker: Broker, name: str, changed: Mapping[str, str]) -> None:
    """Raises AlterError when a running part could not use the settings."""
    before = broker.config
    after = before.with_dynamic(
        cluster=before.cluster if name else changed, own=changed if name else before.own
    )
    for check in broker.listeners.settings:
        try:
            await asyncio.to_thread(check, before, after)
        except ConfigError as error:
            raise AlterError(INVALID_REQUEST, invalid_update(str(error))) from None


def _changed_site(broker: Broker, name: str, alterations: Sequence[Alteration]) -> dict[str, str]:
    """Configs of a further site's node: the sites are one broker, so only settings counted per node
    can differ."""
    config = broker.config.with_dynamic(
        cluster=broker.override(BROKER, ""), own=broker.override(BROKER, name)
    )
    changed = alter_broker(str(broker.node_id), alterations, config)
    if common := sorted(key for key in changed if not key.endswith(SITE_SETTINGS)):
        why = f"Node {name} is a replica site of broker {broker.node_id}: set {', '.join(common)} there"
        raise KafkaError(ErrorCode.INVALID_REQUEST, why)
    return changed


def publish_throttles(broker: Broker) -> None:
    """Set the throttled rates of each site's replicas while they are out of sync (KIP-73)."""
    rates = ReplicationRates(broker.shared)
    for site in broker.nodes.sites:
        values = {**broker.override(BROKER, ""), **broker.override(BROKER, str(site.node_id))}
        for side, name in ((LEADER, "leader"), (FOLLOWER, "follower")):
            value = values.get(f"{name}.replication.throttled.rate")
            rates.set(site.number, side, None if value is None else int(value))


async def _broker_changed(broker: Broker) -> None:
    """Apply changed dynamic broker settings: in the controller, other processes, and topics that
    inherit them."""
    before = {name: broker.topic_config(name) for name in broker.catalogue.topics}
    config = broker.config.with_dynamic(
        cluster=broker.override(BROKER, ""), own=broker.override(BROKER, str(broker.node_id))
    )
    broker.settings_changed(config)
    publish_throttles(broker)
    settings = Settings(broker.dynamic_settings())
    await _call_workers(broker, [(worker, settings) for worker in range(broker.shared.sizes.workers)])
    await _topics_changed(broker, [name for name, old in before.items() if broker.topic_config(name) != old])
    await broker.links.announce(next_image(broker))


async def _topics_changed(broker: Broker, names: Iterable[str]) -> None:
    """Apply changed topic configs: to appends (the slots) and to the logs (IO workers). After
    APPLY_S, logs that are still being opened get them when they are open; the topic's other logs do
    not wait for them, which may be those of a disk that hangs."""
    calls: list[tuple[int, Any]] = []
    changed = list(names)
    late = await broker.log_openings.still_pending(changed, asyncio.get_running_loop().time() + APPLY_S)
    if late:
        log.warning("configs of %d topics are applied to some logs later: they are not open yet", len(late))
        broker.log_openings.changes.start(_topics_changed_later(broker, late))
    broker.settings_changed(topics=changed)
    for name in changed:
        topic = broker.catalogue.topics[name]
        config = broker.topic_config(name)
        for replicated in (False, True):
            replicas = [r for p in topic.partitions if p.replicated is replicated for r in p.replicas]
            broker.slots.configure(replicas, config, topic.internal, replicated)
            if name in late:
                replicas = [replica for replica in replicas if _is_open(broker, replica)]
            calls += [(replica.worker, ConfigurePartition(replica.slot, config)) for replica in replicas]
    await _call_workers(broker, calls)


def _is_open(broker: Broker, replica: Replica) -> bool:
    """Whether the log of a replica is open in an IO worker that takes calls."""
    there = broker.links.worker(replica.worker) is not None
    return there and broker.slots.state(replica.slot) == SlotState.ONLINE


async def _topics_changed_later(broker: Broker, names: Iterable[str]) -> None:
    await broker.log_openings.wait(names)
    async with broker.changing:
        await _topics_changed(broker, [name for name in names if name in broker.catalogue.topics])


async def _call_workers(broker: Broker, calls: Iterable[tuple[int, Any]]) -> None:
    """Call IO workers, in this order. After APPLY_S calls are only sent."""
    loop = asyncio.get_running_loop()
    end_s = loop.time() + APPLY_S

    def call(worker: int, body: Any) -> Awaitable[Any]:
        return broker.links.call_worker(worker, body, end_s - loop.time())

    results = await bounded(CALLS_AT_ONCE, [partial(call, *each) for each in calls])
    for refusal, count in Counter(str(each) for each in results if isinstance(each, KafkaError)).items():
        log.warning("%d calls of IO workers did not apply a new config yet: %s", count, refusal)

"""AlterConfigs and IncrementalAlterConfigs: computes the new stored settings from the old ones and
the operations.

Pure functions; the owner of the stored settings keeps the result. Error codes and texts are those
of Kafka's ConfigAdminManager (brokers) and ConfigurationControlManager (the rest).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import IntEnum

from msgspec import Struct

from kbroker.config import group
from kbroker.config.broker import (
    BROKER,
    DYNAMIC_ONLY,
    BrokerConfig,
    is_dynamic,
)
from kbroker.config.broker_values import LISTENER_KEY, base_name
from kbroker.config.client_metrics import BadMetricsRequest, ClientMetricsConfig
from kbroker.config.setting import PER_BROKER, ConfigError, Setting, Type, java_int, render
from kbroker.config.topic import TOPIC, TopicConfig
from kbroker.protocol.bounds import MAX_STRING_BYTES
from kbroker.protocol.slices import Names, distinct, emptied, emptying, paced

MIN_ISR = "min.insync.replicas"
INVALID_CONFIG = 40
INVALID_REQUEST = 42

_CLUSTER_LEVEL_LISTENER = ("max.connection.creation.rate", "max.connections", "num.network.threads")
_ONLY_WITH_PREFIX = ("ssl.keystore.", "ssl.truststore.", "ssl.key.password")
_PROCESS_COUNTS = (
    "num.network.threads", "num.io.threads", "num.recovery.threads.per.data.dir", "background.threads",
    "num.replica.fetchers", "log.cleaner.threads", "remote.log.reader.threads",
    *(f"remote.log.manager.{pool}.thread.pool.size" for pool in ("copier", "expiration", "follower")),
)  # fmt: skip
_NOT_REQUIRED = ("Error creating ", "Invalid value ", "conflict ")  # other problems fail Kafka's require()


class Op(IntEnum):
    """AlterConfigOp.OpType."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Alteration(Struct, frozen=True):
    """One operation as it came in; `op` is checked here, not by the caller."""

    name: str
    op: int
    value: str | None


class AlterError(Exception):
    """A change that is refused as a whole; `code` is Kafka's error code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


Stored = Mapping[str, str]


def replacing(stored: Stored, pairs: Iterable[tuple[str, str | None]]) -> list[Alteration]:
    """AlterConfigs as operations: a named config is set, any other goes back to its default."""
    named = [Alteration(name, Op.SET, value) for name, value in paced(pairs)]
    kept = Names(alteration.name for alteration in named)
    named += [Alteration(name, Op.DELETE, None) for name in stored if name not in kept]
    kept.clear()
    return named


def alter_topic(
    stored: Stored, alterations: Iterable[Alteration], broker: BrokerConfig, written_here: bool = False
) -> dict[str, str]:
    """The topic's settings after the change. Raises AlterError."""
    every = checked(alterations)
    with emptying(every):
        changed = _apply(stored, every, TOPIC)
    with _refusals(changed):
        TopicConfig.resolve(changed, broker).check(written_here)
    return changed


def alter_group(
    name: str, stored: Stored, alterations: Iterable[Alteration], broker: BrokerConfig
) -> dict[str, str]:
    """The group's settings after the change. Raises AlterError."""
    every = checked(alterations)
    with emptying(every):
        if not name:
            raise AlterError(INVALID_REQUEST, "Default group resources are not allowed.")
        changed = _apply(stored, every, group.GROUP)
    with _refusals(changed):
        group.check(changed, broker)
    return changed


def alter_client_metrics(name: str, stored: Stored, alterations: Iterable[Alteration]) -> dict[str, str]:
    """The subscription's settings after the change. Raises AlterError."""
    # Kafka's lists of a subscription can only be set as a whole: no rows here means no APPEND and
    # no SUBTRACT.
    every = checked(alterations)
    with emptying(every):
        changed = _apply(stored, every, {})
    with _refusals(changed):
        if not name:
            raise AlterError(INVALID_REQUEST, "Subscription name can't be empty")
        ClientMetricsConfig.resolve(changed)
    return changed


def alter_broker(
    name: str, alterations: Iterable[Alteration], broker: BrokerConfig, eligible_leaders: bool = False
) -> dict[str, str]:
    """One dynamic layer after the change: the broker's own, or with the name "" that of all
    brokers.

    eligible_leaders: eligible leader replicas are on (KIP-966). Raises AlterError. The caller makes
    the new effective settings with BrokerConfig.with_dynamic.
    """
    every = checked(alterations)
    with emptying(every):
        own = _is_own(name, broker)
        changed = _apply_to_broker(broker.own if own else broker.cluster, every)
        with _refusals(changed):
            _check_names(changed, own)
            _check_effective(broker, changed, own=own)
            if eligible_leaders:
                _check_min_isr(every, own, broker.own)
    return changed


def _check_names(changed: Stored, own: bool) -> None:
    """Raises AlterError for settings that this layer cannot have, and for values that their rows
    refuse."""
    _refuse("Cannot update these configs dynamically", (n for n in paced(changed) if _is_static(n)))
    _refuse(
        "These security configs can be dynamically updated only per-listener using the listener prefix",
        (n for n in paced(changed) if n.startswith(_ONLY_WITH_PREFIX)),
    )
    _check_values(changed)
    if not own:
        _refuse(
            "Cannot update these configs at default cluster level, broker id must be specified",
            (n for n in paced(changed) if _is_per_broker(n)),
        )


@contextmanager
def _refusals(refused: dict[str, str] | list[Alteration]) -> Iterator[None]:
    """Every refusal becomes an AlterError. What is refused is emptied in slices, because the frames
    that an exception passed keep it."""
    try:
        yield
    except AlterError:
        emptied(refused)
        raise
    except BadMetricsRequest as error:
        emptied(refused)
        raise AlterError(INVALID_REQUEST, str(error)) from None
    except ConfigError as error:
        emptied(refused)
        raise AlterError(INVALID_CONFIG, str(error)) from None


def _check_min_isr(alterations: Iterable[Alteration], own: bool, stored: Stored) -> None:
    """Leaders are elected by one min.insync.replicas for all brokers. A broker's own value, from
    before that, may only be deleted. Raises AlterError."""
    for alteration in alterations:
        deletes = alteration.op == Op.DELETE
        if alteration.name != MIN_ISR or (own and deletes and MIN_ISR in stored):
            continue
        if own:
            why = f"Broker-level {MIN_ISR} cannot be altered while ELR is enabled."
            raise AlterError(INVALID_CONFIG, why)
        if deletes:
            why = f"Cluster-level {MIN_ISR} cannot be removed while ELR is enabled."
            raise AlterError(INVALID_CONFIG, why)


def _is_own(name: str, broker: BrokerConfig) -> bool:
    """True for this broker's id, False for "". Raises AlterError for any other name. The settings
    of an id that is written in another way, as 01, are stored and have no effect, as in Apache
    Kafka."""
    if not name:
        return False
    try:
        number = java_int(name)
    except ValueError:
        raise AlterError(INVALID_REQUEST, f"Node id must be an integer, but it is: {name}") from None
    if number != broker.node_id:
        why = f"Unexpected broker id, expected {broker.node_id}, but received {name}"
        raise AlterError(INVALID_REQUEST, why)
    return True


def checked(alterations: Iterable[Alteration]) -> list[Alteration]:
    """Kafka's checks before those of names and values. Raises AlterError."""
    every = list(paced(alterations))
    with _refusals(every):
        if sum(1 for _ in distinct(alteration.name for alteration in every)) != len(every):
            raise AlterError(INVALID_REQUEST, "Error due to duplicate config keys")
        nulls = [a.name for a in paced(every) if a.op != Op.DELETE and a.value is None]
        if nulls:
            raise AlterError(INVALID_REQUEST, "Null value not supported for : " + ", ".join(nulls))
        known = tuple(Op)
        for alteration in paced(every):
            if alteration.op not in known:
                raise AlterError(INVALID_REQUEST, f"Unknown operations type {alteration.op}")
    return every


def _apply(stored: Stored, alterations: Iterable[Alteration], rows: Mapping[str, Setting]) -> dict[str, str]:
    """Stored settings with the operations done, values unchecked. Raises AlterError."""
    changed = dict(stored)
    with _refusals(changed):
        for alteration in paced(alterations):
            name, op = alteration.name, Op(alteration.op)
            if op in (Op.APPEND, Op.SUBTRACT):
                row = rows.get(name)
                if row is None or row.type is not Type.LIST:
                    why = f"Can't {op.name} to key {name} because its type is not LIST."
                    raise AlterError(INVALID_CONFIG, why)
            _apply_one(changed, alteration, rows.get(name))
    return changed


def _apply_to_broker(stored: Stored, alterations: Iterable[Alteration]) -> dict[str, str]:
    """As _apply, with the texts brokers answer. Raises AlterError."""
    changed = dict(stored)
    with _refusals(changed):
        for alteration in paced(alterations):
            name, op = alteration.name, Op(alteration.op)
            row = BROKER.get(name)  # lists of one listener can only be set as a whole
            if op in (Op.APPEND, Op.SUBTRACT):
                if row is None:
                    raise AlterError(INVALID_CONFIG, f"Unknown config name: {name}")
                if row.type is not Type.LIST:
                    why = f"Config value {op.name.lower()} is not allowed for config key: {name}"
                    raise AlterError(INVALID_CONFIG, why)
            _apply_one(changed, alteration, row)
    return changed


def _apply_one(changed: dict[str, str], alteration: Alteration, row: Setting | None) -> None:
    """SET and DELETE replace; APPEND and SUBTRACT work on the stored text, or the default's where
    nothing is stored."""
    name, value = alteration.name, alteration.value or ""
    if alteration.op == Op.DELETE:
        changed.pop(name, None)
        return
    if alteration.op == Op.SET:
        changed[name] = value
        return
    default = None if row is None else render(row.default_value(), row.type)
    entries = [entry for entry in changed.get(name, default or "").split(",") if entry]
    stripped = value.rstrip(",")
    given = stripped.split(",") if stripped or not value else []  # as Java's split: commas have no entry
    text = ",".join(_appended(entries, given) if alteration.op == Op.APPEND else _without(entries, given))
    if len(text.encode()) > MAX_STRING_BYTES:  # no answer could carry it
        why = f"it exceeds the maximum value size of {MAX_STRING_BYTES} bytes."
        raise AlterError(INVALID_CONFIG, f"The configuration value cannot be added because {why}")
    changed[name] = text


def _appended(entries: list[str], given: Iterable[str]) -> list[str]:
    """The entries, and those given that are not among them."""
    known = set(entries)
    for entry in paced(given):
        if entry not in known:
            known.add(entry)
            entries.append(entry)
    return entries


def _without(entries: Iterable[str], given: Iterable[str]) -> list[str]:
    """The entries without the first one that equals each given one."""
    removed = Counter(given)
    kept = []
    for entry in paced(entries):
        if removed[entry] > 0:
            removed[entry] -= 1
        else:
            kept.append(entry)
    return kept


def _is_static(name: str) -> bool:
    return name in BROKER and not is_dynamic(name)


def _is_per_broker(name: str) -> bool:
    if LISTENER_KEY.fullmatch(name):
        return base_name(name) not in _CLUSTER_LEVEL_LISTENER
    row = BROKER.get(name)
    return row is not None and row.dynamic is PER_BROKER


def _refuse(why: str, names: Iterable[str]) -> None:
    refused = list(names)
    if refused:
        raise AlterError(INVALID_REQUEST, f"{why}: [{', '.join(refused)}]")


def _check_values(changed: Stored) -> None:
    """Raises AlterError for the first value that its row refuses."""
    for name, text in paced(changed.items()):
        row = BROKER.get(base_name(name)) or DYNAMIC_ONLY.get(name)
        if row is not None:
            try:
                row.parse(text)
            except ConfigError as error:
                raise AlterError(INVALID_REQUEST, str(error)) from None


def _check_effective(broker: BrokerConfig, changed: Stored, *, own: bool) -> None:
    """Raises AlterError when the settings contradict each other or a running part cannot follow the
    change."""
    try:
        after = broker.with_dynamic(
            cluster=broker.cluster if own else changed, own=changed if own else broker.own
        )
    except ConfigError as error:
        first = str(error).splitlines()[0]
        required = "" if first.startswith(_NOT_REQUIRED) else "requirement failed: "
        raise AlterError(INVALID_REQUEST, required + first) from None
    for why in (*_jumps(broker, after), *_local_retention(after), *_reporters(broker, after)):
        raise AlterError(INVALID_REQUEST, invalid_update(why))


def invalid_update(why: str) -> str:
    """The text for settings that a running part refuses
    (DynamicBrokerConfig.processReconfiguration)."""
    wrapped = f"org.apache.kafka.common.config.ConfigException: {why}"
    return f"Invalid value {wrapped} for configuration Invalid dynamic configuration"


def _jumps(before: BrokerConfig, after: BrokerConfig) -> Iterator[str]:
    """Process counts that would more than double or less than halve, rounded down."""
    for name in _PROCESS_COUNTS:
        now, then = before.get_int(name), after.get_int(name)
        if name == "log.cleaner.threads":
            why, more, less = (
                "Log cleaner threads cannot be",
                "increased to more than",
                "reduced to less than",
            )
        else:
            why = f"Dynamic thread count update validation failed for {name}={then}, value should"
            more, less = "not be greater than", "be at least"
        if then > now * 2:
            yield f"{why} {more} double the current value {now}"
        if then < now // 2:
            yield f"{why} {less} half the current value {now}"


def _local_retention(config: BrokerConfig) -> Iterator[str]:
    """Local retention must not exceed retention; -2 means the same amount."""
    for unit, maximum in (("ms", config.log_retention_ms), ("bytes", config.get_int("log.retention.bytes"))):
        name, whole = f"log.local.retention.{unit}", f"log.retention.{unit}"
        local = config.get_int(name)
        if maximum != -1 and local == -1:
            yield (
                f"Invalid value -1 for configuration {name}: "
                f"Value must not be -1 as {whole} value is set as {maximum}."
            )
        elif maximum != -1 and local != -2 and local > maximum:
            yield (
                f"Invalid value {local} for configuration {name}: "
                f"Value must not be more than {whole} property value: {maximum}"
            )


def _reporters(before: BrokerConfig, after: BrokerConfig) -> Iterator[str]:
    """No class of Java can be loaded here: new metric reporters cannot follow the change."""
    name = "metric.reporters"
    if set(after.get_list(name)) - set(before.get_list(name)):
        yield (
            f"Validation of dynamic config update of Set({name}) failed "
            "with class class kafka.server.DynamicMetricsReporters"
        )

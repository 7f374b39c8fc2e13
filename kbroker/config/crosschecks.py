"""Checks over several settings: contradictions (KafkaConfig.validateValues), and warnings."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from kbroker.config.broker_values import BrokerValues
from kbroker.config.checks import connections_per_ip
from kbroker.config.inert import INERT_REASON
from kbroker.config.listeners import SecurityProtocol, check_distinct
from kbroker.config.processes import MAX_IO_WORKERS, MAX_NETWORK_PROCESSES, MAX_THREADS
from kbroker.config.removed import removed_because
from kbroker.config.setting import ConfigError, Setting
from kbroker.config.sites import sites_of

_MIB = 1 << 20
_MAX_COUNTS = {
    "num.network.threads": MAX_NETWORK_PROCESSES,
    "num.io.threads": MAX_IO_WORKERS,
    "num.recovery.threads.per.data.dir": MAX_THREADS,
    "log.cleaner.threads": MAX_THREADS,
}
_PARTITION_COUNTS = (
    "num.partitions", "offsets.topic.num.partitions", "transaction.state.log.num.partitions",
    "share.coordinator.state.topic.num.partitions",
)  # fmt: skip
MAX_UNKNOWN: Final = 100
"""Unknown keys with a warning of their own."""
_PLUGIN_PREFIXES = ("config.providers.", "rlmm.config.", "rsm.config.")


def crosscheck(config: BrokerValues) -> Iterator[str]:
    """Problems between settings that are each fine by themselves, one text each."""
    yield from _identity(config)
    yield from _logs(config)
    yield from _processes(config)
    yield from _partitions(config)
    yield from _sockets(config)
    yield from _groups(config)
    try:
        sites_of(config)
    except ConfigError as error:
        yield str(error)
    try:
        yield from _listeners(config)
    except ConfigError as error:
        yield str(error)
        # a line of its own: clients get Kafka's text, the first
        if "Unable to parse" in str(error):
            yield "A listener is written NAME://HOST:PORT, as PLAINTEXT://127.0.0.1:9092 or SSL://[::1]:9093"
        elif "security protocol" in str(error):
            yield (
                f"The security protocols are {', '.join(SecurityProtocol.__members__)}. A listener with "
                "another name needs one of them in listener.security.protocol.map, as in INSIDE:PLAINTEXT"
            )


def _identity(config: BrokerValues) -> Iterator[str]:
    broker_id = config.get_int("broker.id")
    if broker_id not in (-1, config.node_id):
        yield "You must set `node.id` to the same value as `broker.id`."
    if "broker" not in config.get_list("process.roles"):
        yield "Invalid value controller for configuration process.roles: kbroker is always a broker"


def _logs(config: BrokerValues) -> Iterator[str]:
    if config.log_roll_ms < 1:
        yield "log.roll.ms must be greater than or equal to 1"
    if config.log_roll_jitter_ms < 0:
        yield "log.roll.jitter.ms must be greater than or equal to 0"
    if config.log_retention_ms == 0:
        yield "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"
    cordoned = config.value("cordoned.log.dirs") or ()
    assert isinstance(cordoned, tuple)
    if "*" in cordoned and len(cordoned) > 1:
        yield "When cordoned.log.dirs is set to *, it must not contain other values"
    missing = [path for path in cordoned if path not in ("*", *config.log_dirs)]
    if missing:
        yield (
            "All entries in cordoned.log.dirs must be present in log.dirs or log.dir. "
            f"Missing entries : {', '.join(missing)}"
        )
    threads = config.get_int("log.cleaner.threads")
    if threads < 1:
        yield "Invalid value 0 for configuration log.cleaner.threads: Value must be at least 1"
    elif config.get_int("log.cleaner.dedupe.buffer.size") // threads <= _MIB:
        yield "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread."
    low = config.get_int("log.cleaner.min.compaction.lag.ms")
    high = config.get_int("log.cleaner.max.compaction.lag.ms")
    if low > high:
        yield (
            f"conflict topic config setting min.compaction.lag.ms ({low}) > max.compaction.lag.ms ({high})"
        )


def _processes(config: BrokerValues) -> Iterator[str]:
    for name, maximum in _MAX_COUNTS.items():
        if (count := config.get_int(name)) > maximum:
            yield f"Invalid value {count} for configuration {name}: Value must be no more than {maximum}"


def _partitions(config: BrokerValues) -> Iterator[str]:
    """A topic with more partitions than the table has room for could never be created."""
    room = config.get_int("kbroker.max.partitions")
    for name in _PARTITION_COUNTS:
        if (count := config.get_int(name)) > room:
            yield f"{name}={count} must be less than or equal to kbroker.max.partitions={room}"


def _sockets(config: BrokerValues) -> Iterator[str]:
    queued, largest = config.get_int("queued.max.request.bytes"), config.get_int("socket.request.max.bytes")
    if 0 < queued < largest:
        yield "queued.max.request.bytes must be larger or equal to socket.request.max.bytes"
    if largest > config.get_int("kbroker.arena.bytes"):
        yield "kbroker.arena.bytes must be larger or equal to socket.request.max.bytes"
    key = "max.connections.per.ip.overrides"
    if config.get_int("max.connections.per.ip") == 0 and not connections_per_ip(key, config.get_str(key)):
        yield f"max.connections.per.ip can be set to zero only if {key} property is set."
    idle, delay = (
        config.get_int("connections.max.idle.ms"),
        config.get_int("connection.failed.authentication.delay.ms"),
    )
    if 0 <= idle <= delay:
        yield (
            f"connection.failed.authentication.delay.ms={delay} should always be less than "
            f"connections.max.idle.ms={idle} to prevent failed authentication responses from timing out"
        )


def _groups(config: BrokerValues) -> Iterator[str]:
    if config.get_int("group.min.session.timeout.ms") > config.get_int("group.max.session.timeout.ms"):
        yield "group.max.session.timeout.ms must be greater than or equal to group.min.session.timeout.ms"
    for kind, name in (
        ("consumer", "session.timeout.ms"), ("consumer", "heartbeat.interval.ms"),
        ("consumer", "assignment.interval.ms"), ("share", "session.timeout.ms"),
        ("share", "heartbeat.interval.ms"), ("share", "assignment.interval.ms"),
        ("share", "record.lock.duration.ms"), ("share", "delivery.count.limit"),
        ("share", "partition.max.record.locks"),
    ):  # fmt: skip
        low, mid, high = (f"group.{kind}.{bound}{name}" for bound in ("min.", "", "max."))
        if config.get_int(high) < config.get_int(low):
            yield f"{high} must be greater than or equal to {low}"
        elif config.get_int(mid) < config.get_int(low):
            yield f"{mid} must be greater than or equal to {low}"
        elif config.get_int(mid) > config.get_int(high):
            yield f"{mid} must be less than or equal to {high}"
    for kind in ("consumer", "share"):
        beat, session = f"group.{kind}.heartbeat.interval.ms", f"group.{kind}.session.timeout.ms"
        if config.get_int(beat) >= config.get_int(session):
            yield f"{beat} must be less than {session}"
    if "classic" not in config.get_list("group.coordinator.rebalance.protocols"):
        yield "Disabling the 'classic' protocol is not supported."


def _listeners(config: BrokerValues) -> Iterator[str]:
    """Raises ConfigError where the entries themselves cannot be read."""
    opened, advertised = config.listeners, config.advertised_listeners
    check_distinct("listeners", opened, ports=True)
    check_distinct("advertised.listeners", advertised, ports=False)
    names = [endpoint.listener for endpoint in opened]
    names_shown = [endpoint.listener for endpoint in advertised]
    if not names_shown:
        yield "There must be at least one broker advertised listener."
    elif not set(names_shown) <= set(names):
        yield (
            "advertised.listeners listener names must be equal to or a subset of the ones defined in "
            f"listeners. Found {','.join(names_shown)}. The valid options based on the current configuration "
            f"are {','.join(names)}"
        )
    elif config.inter_broker_listener not in names_shown and not _may_choose(config):
        yield (
            "inter.broker.listener.name must be a listener name defined in advertised.listeners. "
            f"The valid options based on currently configured listeners are {','.join(names_shown)}"
        )
    explicit = config.value("advertised.listeners") is not None
    if explicit and any(endpoint.host == "0.0.0.0" for endpoint in advertised):
        yield (
            "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address."
        )


def _may_choose(config: BrokerValues) -> bool:
    """One node has no inter-broker traffic, so an unnamed listener need not exist."""
    return config.get_optional_str("inter.broker.listener.name") is None


def without_effect(config: BrokerValues) -> Iterator[str]:
    """One warning for each listener on which a setting has no effect."""
    name = "ssl.client.auth"
    if config.get_str(name) == "none":
        return
    for endpoint in config.listeners:
        protocol, listener = endpoint.protocol, endpoint.listener
        if protocol.sasl and protocol.tls and not config.is_set_for_listener(listener, name):
            yield (
                f"{name} has no effect on listener {listener}, as in Kafka: on {protocol.name} only "
                f"listener.name.{listener.lower()}.{name} counts"
            )


def warnings_of(
    static: Mapping[str, str], row_of: Callable[[str], Setting | None], names: Iterable[str]
) -> Iterator[str]:
    """One warning for each key without effect: removed, ignored here, or unknown.

    names: of all settings, to suggest one with a similar name, which takes milliseconds. After
    MAX_UNKNOWN unknown keys the others are counted."""
    unknown = 0
    for name in static:
        reason = removed_because(name)
        if reason is not None:
            yield f"{name} was removed from Kafka and is ignored: {reason}"
            continue
        row = row_of(name)
        if row is not None and row.name in INERT_REASON:
            yield f"{name} has no effect in kbroker: {INERT_REASON[row.name]}"
        elif row is None and not name.startswith(_PLUGIN_PREFIXES):
            from kbroker.config.close_names import suggestion  # most brokers need it not

            unknown += 1
            if unknown <= MAX_UNKNOWN:
                yield f"{name} is not a known setting and is ignored{suggestion(name, names)}"
    if unknown > MAX_UNKNOWN:
        yield f"{unknown - MAX_UNKNOWN} more keys are not known settings and are ignored"

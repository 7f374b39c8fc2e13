"""Validates specs of new topics and partitions and applies defaults, as Kafka's controller does.
Pure.

Source: ReplicationControlManager (createTopic, createPartitions, validateManualPartitionAssignment)
and StripedReplicaPlacer, for a cluster whose brokers are this host's replica sites.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Sized
from typing import Protocol

from msgspec import Struct, field

from kbroker.config.broker import BrokerConfig
from kbroker.config.setting import ConfigError
from kbroker.config.topic import TopicConfig
from kbroker.control.metadata.catalogue import Catalogue, Topic
from kbroker.control.metadata.clamp import factor_note, is_clamped, min_isr_note
from kbroker.control.metadata.placement import too_few_sites
from kbroker.control.metadata.topic_name import CLUSTER_METADATA, INTERNAL, WRITTEN_HERE, validate
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.slices import paced


class NewTopic(Struct):
    """A spec for a topic. num_partitions and replication_factor: -1 is the broker's default.
    assignments: replicas by partition index, or empty. configs: a None value is refused."""

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    configs: dict[str, str | None] | dict[str, str] = field(default_factory=dict)


class TopicPlan(Struct):
    """A topic that may be created: checked name, number of partitions and config overrides.

    assignments: node ids of the replicas of each partition when the spec named them. note: the part
    of the request that was not granted, for the log and the answer; None when all of it was
    granted."""

    name: str
    num_partitions: int
    configs: dict[str, str]
    replication_factor: int = 1
    assignments: Sequence[Sequence[int]] = ()
    note: str | None = None


MAX_PARTITIONS_PER_REQUEST = 10_000
MAX_RECORDS_PER_REQUEST = 10_000
"""Maximum of records in one operation of Kafka's controller, which writes one for each topic,
partition and config."""

Sites = Mapping[int, Sequence[str]]
"""Node id -> the log dirs of that site that accept new replicas."""


def plan_topic(spec: NewTopic, catalogue: Catalogue, config: BrokerConfig, sites: Sites) -> TopicPlan:
    """Check one spec, in the order in which Kafka does. Raises KafkaError."""
    if spec.name == CLUSTER_METADATA:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {spec.name} is prohibited.")
    validate(spec.name)
    collision = catalogue.colliding(spec.name)
    if collision is not None and collision != spec.name:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic '{spec.name}' collides with existing topic: {collision}",
        )
    if spec.name in catalogue.topics:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{spec.name}' already exists.")
    configs = plan_configs(spec.configs, config, spec.name in WRITTEN_HERE)
    if spec.assignments:
        replicas = _assigned(spec, sites)
        return TopicPlan(spec.name, len(replicas), configs, len(replicas[0]), replicas)
    count = _count(spec, config)
    requested, factor = _factor(spec, config, sites)
    plan = TopicPlan(spec.name, count, configs, factor)
    if spec.name not in INTERNAL and is_clamped(spec.name, config, len(sites)):
        notes = [factor_note(spec.name, requested, factor)] if requested > factor else []
        notes.append(min_isr_note(spec.name, configs, factor))
        plan.note = "; ".join(filter(None, notes)) or None
    return plan


class Partitioned(Protocol):
    """A spec for a topic, or the part of a request that becomes one."""

    @property
    def num_partitions(self) -> int: ...

    @property
    def assignments(self) -> Sized: ...


def check_total_partitions(specs: Iterable[Partitioned], config: BrokerConfig) -> None:
    """Raises POLICY_VIOLATION for more partitions than one request may create, before anything is
    planned."""
    total = 0
    for spec in specs:
        if spec.assignments:
            total += len(spec.assignments)
        elif spec.num_partitions == -1:
            total += config.get_int("num.partitions")
        else:
            total += max(0, spec.num_partitions)
        if total > MAX_PARTITIONS_PER_REQUEST:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request."
            )


def records_of(plan: TopicPlan) -> int:
    """Records that Kafka's controller would make of a new topic."""
    return 1 + plan.num_partitions + len(plan.configs)


def too_many_records() -> KafkaError:
    """The error of Kafka's controller for an operation with more than MAX_RECORDS_PER_REQUEST
    records."""
    return KafkaError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")


def plan_configs(
    specified: Mapping[str, str | None], config: BrokerConfig, written_here: bool = False
) -> dict[str, str]:
    """Check a new topic's config overrides. Raises INVALID_CONFIG."""
    without_value = [name for name, value in paced(specified.items()) if value is None]
    if without_value:
        names = ",".join(without_value)
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {names}")
    configs = {name: value for name, value in paced(specified.items()) if value is not None}
    try:
        TopicConfig.resolve(configs, config).check(written_here)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None
    return configs


def _count(spec: NewTopic, config: BrokerConfig) -> int:
    if spec.replication_factor < -1 or spec.replication_factor == 0:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if spec.num_partitions < -1 or spec.num_partitions == 0:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."
        )
    return config.get_int("num.partitions") if spec.num_partitions == -1 else spec.num_partitions


def _factor(spec: NewTopic, config: BrokerConfig, sites: Sites) -> tuple[int, int]:
    """The requested number of replicas, and the number that the topic gets."""
    default = config.get_int("default.replication.factor")
    factor = default if spec.replication_factor == -1 else spec.replication_factor
    usable = sum(1 for log_dirs in sites.values() if log_dirs)
    if factor > max(1, usable):
        if is_clamped(spec.name, config, len(sites), spec.replication_factor):
            return factor, max(1, usable)
        raise too_few_sites(factor, usable)
    return factor, factor


def _assigned(spec: NewTopic, sites: Sites) -> list[Sequence[int]]:
    """Node ids by partition index."""
    for given, what in (
        (spec.replication_factor, "replication factor"),
        (spec.num_partitions, "numPartitions"),
    ):
        if given != -1:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"A manual partition assignment was specified, but {what} was not set to -1.",
            )
    seen: dict[int, Sequence[int]] = {}
    factor: int | None = None
    for index, replicas in spec.assignments:
        if index in seen:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {index}",
            )
        check_replicas(replicas, sites, factor)
        factor = len(replicas)
        seen[index] = replicas
    if set(seen) != set(range(len(seen))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    return [seen[index] for index in range(len(seen))]


def check_replicas(replicas: Sequence[int], nodes: Collection[int], factor: int | None) -> None:
    """A replica list may name each node once, and no unknown node. Raises
    INVALID_REPLICA_ASSIGNMENT."""

    def refuse(why: str) -> KafkaError:
        return KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment includes {why}"
        )

    if not replicas:
        raise refuse("an empty replica list.")
    previous: int | None = None
    for broker in sorted(replicas):
        if broker not in nodes:
            raise refuse(f"broker {broker}, but no such broker is registered.")
        if broker == previous:
            raise refuse(f"the broker {broker} more than once.")
        previous = broker
    if factor is not None and len(replicas) != factor:
        raise refuse(
            f"a partition with {len(replicas)} replica(s), but this is not consistent with previous partitions, which "
            f"have {factor} replica(s)."
        )


def plan_growth(
    topic: Topic | None,
    count: int,
    assignments: Sequence[Sequence[int]] | None,
    nodes: Collection[int],
    count_added: Callable[[int], None],
) -> int:
    """The number of partitions to add so that there are `count`. Raises KafkaError.

    count_added: called with that number before replicas are checked and placed, as Kafka counts its
    quota."""
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    now = len(topic.partitions)
    if count == now:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {now} partition(s).")
    if count < now:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {now} partition(s); {count} would not be an increase.",
        )
    additional = count - now
    if assignments is not None and len(assignments) != additional:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {additional} additional partition(s), but only {len(assignments)} "
            "assignment(s) were specified.",
        )
    count_added(additional)
    for replicas in assignments or ():
        check_replicas(replicas, nodes, len(topic.partitions[0].replicas))
    if additional > MAX_RECORDS_PER_REQUEST:
        # Kafka's controller gives up with this code, too, but only when it has placed them all
        why = f"At most {MAX_RECORDS_PER_REQUEST} partitions can be added by one request, not {additional}."
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, why)
    return additional

"""What a wish for a new topic or more partitions comes to: checks and defaults of Kafka's controller. Pure.

Source: ReplicationControlManager (createTopic, createPartitions, validateManualPartitionAssignment) and
StripedReplicaPlacer, for a cluster of one broker.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kbroker.config.broker import BrokerConfig
from kbroker.config.setting import ConfigError
from kbroker.config.topic import TopicConfig
from kbroker.control.catalogue import Catalogue, Topic
from kbroker.control.topic_name import CLUSTER_METADATA, INTERNAL, validate
from kbroker.protocol.errors import ErrorCode, KafkaError


@dataclass(slots=True)
class NewTopic:
    """A wish for a topic. num_partitions and replication_factor: -1 is the broker's default. assignments: replicas
    by partition index, or empty. configs: a None value is refused."""

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(slots=True)
class TopicPlan:
    """A topic that may be created: checked name, number of partitions and config overrides."""

    name: str
    num_partitions: int
    configs: dict[str, str]


def plan_topic(wish: NewTopic, catalogue: Catalogue, config: BrokerConfig) -> TopicPlan:
    """Check one wish, in the order in which Kafka does. Raises KafkaError."""
    if wish.name == CLUSTER_METADATA:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {wish.name} is prohibited.")
    validate(wish.name)
    collision = catalogue.colliding(wish.name)
    if collision is not None and collision != wish.name:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic '{wish.name}' collides with existing topic: {collision}",
        )
    if wish.name in catalogue.topics:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{wish.name}' already exists.")
    configs = plan_configs(wish.configs, config)
    return TopicPlan(wish.name, _count(wish, config), configs)


def plan_configs(wished: Mapping[str, str | None], config: BrokerConfig) -> dict[str, str]:
    """Check a new topic's config overrides. Raises INVALID_CONFIG."""
    without_value = [name for name, value in wished.items() if value is None]
    if without_value:
        names = ",".join(without_value)
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {names}")
    configs = {name: value for name, value in wished.items() if value is not None}
    try:
        TopicConfig.resolve(configs, config)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None
    return configs


def _count(wish: NewTopic, config: BrokerConfig) -> int:
    if wish.assignments:
        return _count_of_assignments(wish, config.node_id)
    if wish.replication_factor < -1 or wish.replication_factor == 0:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if wish.num_partitions < -1 or wish.num_partitions == 0:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."
        )
    _check_factor(wish, config)
    return config.get_int("num.partitions") if wish.num_partitions == -1 else wish.num_partitions


def _check_factor(wish: NewTopic, config: BrokerConfig) -> None:
    default = config.get_int("default.replication.factor")
    factor = default if wish.replication_factor == -1 else wish.replication_factor
    clamped = wish.name in INTERNAL and config.get_bool("kbroker.clamp.replication.factor")
    if factor > 1 and not clamped:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {factor} time(s): The target replication factor of {factor} cannot "
            "be reached because only 1 broker(s) are registered or some brokers have all their log "
            "directories cordoned.",
        )


def _count_of_assignments(wish: NewTopic, node_id: int) -> int:
    for given, what in (
        (wish.replication_factor, "replication factor"),
        (wish.num_partitions, "numPartitions"),
    ):
        if given != -1:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"A manual partition assignment was specified, but {what} was not set to -1.",
            )
    seen: set[int] = set()
    factor: int | None = None
    for index, replicas in wish.assignments:
        if index in seen:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {index}",
            )
        check_replicas(replicas, node_id, factor)
        factor = len(replicas)
        seen.add(index)
    if seen != set(range(len(seen))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    return len(seen)


def check_replicas(replicas: Sequence[int], node_id: int, factor: int | None) -> None:
    """A replica list may name this broker once and nobody else. Raises INVALID_REPLICA_ASSIGNMENT."""

    def refuse(why: str) -> KafkaError:
        return KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment includes {why}"
        )

    if not replicas:
        raise refuse("an empty replica list.")
    previous: int | None = None
    for broker in sorted(replicas):
        if broker != node_id:
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
    topic: Topic | None, count: int, assignments: Sequence[Sequence[int]] | None, node_id: int
) -> int:
    """How many partitions to add so that there are `count`. Raises KafkaError."""
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
    if assignments is not None:
        if len(assignments) != additional:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Attempted to add {additional} additional partition(s), but only {len(assignments)} "
                "assignment(s) were specified.",
            )
        for replicas in assignments:
            check_replicas(replicas, node_id, 1)
    return additional

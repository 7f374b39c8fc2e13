"""Deviations of kio from Kafka's schemas: each row has its reason. `compare` proves the list
complete."""

from collections.abc import Callable, Mapping

from kbroker.protocol.generate.shapes import MessageShape

Override = Callable[[MessageShape], None]

ANY = "*"
NAMES: Mapping[tuple[str, str], str] = {
    # (message or ANY, kio's name) -> Kafka's name. kio drops the unit of times and marks builtins
    # by "_".
    (ANY, "id_"): "id",
    (ANY, "type_"): "type",
    ("ProduceResponse", "log_append_time"): "log_append_time_ms",
    ("CreateDelegationTokenResponse", "issue_timestamp"): "issue_timestamp_ms",
    ("CreateDelegationTokenResponse", "expiry_timestamp"): "expiry_timestamp_ms",
    ("CreateDelegationTokenResponse", "max_timestamp"): "max_timestamp_ms",
    ("RenewDelegationTokenResponse", "expiry_timestamp"): "expiry_timestamp_ms",
    ("ExpireDelegationTokenResponse", "expiry_timestamp"): "expiry_timestamp_ms",
    ("DescribeTransactionsResponse", "transaction_start_time"): "transaction_start_time_ms",
}


def kafka_name(message: str, name: str) -> str:
    return NAMES.get((message, name)) or NAMES.get((ANY, name), name)


def _null_default(struct: str, *names: str) -> Override:
    """kio gives every array an empty default; these are null in Kafka, meaning "all" or
    "unchanged"."""

    def apply(shape: MessageShape) -> None:
        (found,) = [s for s in shape.structs if s.name == struct]
        for name in names:
            (field,) = [f for f in found.fields if f.name == name]
            assert field.nullable == field.versions
            field.default = None

    return apply


OVERRIDES: Mapping[str, Override] = {
    "ListPartitionReassignmentsRequest": _null_default("ListPartitionReassignmentsRequest", "topics"),
    "ConsumerGroupHeartbeatRequest": _null_default("ConsumerGroupHeartbeatRequest", "topic_partitions"),
    "StreamsGroupHeartbeatRequest": _null_default(
        "StreamsGroupHeartbeatRequest",
        "active_tasks", "standby_tasks", "warmup_tasks", "client_tags", "task_offsets", "task_end_offsets",
    ),
    "StreamsGroupHeartbeatResponse": _null_default(
        "StreamsGroupHeartbeatResponse",
        "active_tasks", "standby_tasks", "warmup_tasks", "partitions_by_user_endpoint",
    ),
    "StreamsGroupDescribeResponse": _null_default("Topology", "subtopologies"),
}  # fmt: skip

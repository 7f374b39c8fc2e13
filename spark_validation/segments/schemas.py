"""Names and types of the segment source's columns; imports no kernels, for the driver and for
planning."""

from collections.abc import Iterable

RECORD: dict[str, str] = {
    # the columns of Spark's Kafka connector
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    # of the load tests' records
    "timestamp_ms": "bigint",
    "record_key": "int",
    "producer": "int",
    "seq": "bigint",
    "partition_seq": "bigint",
    "flags": "tinyint",
    "intact": "boolean",
    "intended_ns": "bigint",
    # of the log
    "header_sum": "bigint",
    "state": "tinyint",
    "marker": "bigint",
    "value_bytes": "int",
    "producer_id": "bigint",
    "producer_epoch": "int",
    "sequence": "int",
    "leader_epoch": "int",
}
NULLABLE = ("key", "value")
CONNECTOR_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")

BATCH: dict[str, str] = {
    "topic": "string",
    "partition": "int",
    "segment": "bigint",
    "position": "bigint",
    "size": "int",
    "base_offset": "bigint",
    "last_offset": "bigint",
    "base_timestamp_ms": "bigint",
    "max_timestamp_ms": "bigint",
    "highest_timestamp_ms": "bigint",
    "leader_epoch": "int",
    "attributes": "int",
    "producer_id": "bigint",
    "producer_epoch": "int",
    "base_sequence": "int",
    "record_count": "int",
    "control_type": "int",
    "coordinator_epoch": "int",
    "fault": "int",
}
INDEX: dict[str, str] = {
    "topic": "string",
    "partition": "int",
    "segment": "bigint",
    "file": "string",
    "entry": "bigint",
    "offset": "bigint",
    "problem": "string",
}
ROWS = {"records": RECORD, "batches": BATCH, "indexes": INDEX}
UNASKED = {
    "records": CONNECTOR_COLUMNS,
    "batches": tuple(BATCH),
    "indexes": tuple(INDEX),
}  # without named columns


def ddl(types: dict[str, str], names: Iterable[str]) -> str:
    """A schema of some of the columns.

    NOT NULL where it is so: Spark looks twice for a null in each other value of a row.
    """
    return ", ".join(
        f"{name} {types[name]}" if name in NULLABLE else f"{name} {types[name]} NOT NULL" for name in names
    )

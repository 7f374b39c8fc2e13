"""The record of a transactional id in `__transaction_state` (Kafka's TransactionLog)."""

from kbroker.control.coordinator.machine import Record
from kbroker.control.transactions.metadata import TV_1, TransactionMetadata
from kbroker.control.transactions.partitions import NO_PARTITIONS, TransactionPartitions
from kbroker.control.transactions.state import TransactionState
from kbroker.protocol.coordinator_records.index import TRANSACTION_STATE
from kbroker.protocol.coordinator_records.transaction_log import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from kbroker.protocol.record_types import decode_record, encode_key, encode_value
from kbroker.protocol.schema import ProtocolError


def state_record(metadata: TransactionMetadata, transaction_version: int) -> Record:
    """The state as it is stored under a finalized transaction.version: value version 1 from TV_1
    on."""
    value = TransactionLogValue(
        producer_id=metadata.producer_id,
        previous_producer_id=metadata.prev_producer_id,
        next_producer_id=metadata.next_producer_id,
        producer_epoch=metadata.producer_epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=metadata.state,
        transaction_partitions=_grouped(metadata),
        transaction_last_update_timestamp_ms=metadata.last_update_ms,
        transaction_start_timestamp_ms=metadata.start_ms,
        client_transaction_version=metadata.client_version,
    )
    version = 1 if transaction_version >= TV_1 else 0
    return Record(encode_key(TransactionLogKey(metadata.transactional_id)), encode_value(value, version))


def tombstone(transactional_id: str) -> Record:
    """The id is forgotten."""
    return Record(encode_key(TransactionLogKey(transactional_id)), None)


def read_record(key: bytes, value: bytes | None) -> tuple[str, TransactionMetadata | None]:
    """(transactional id, its state or None). Raises ProtocolError for an unknown type, version or
    state."""
    parsed, content = decode_record(TRANSACTION_STATE, key, value)
    if not isinstance(parsed, TransactionLogKey):
        raise ProtocolError(f"{type(parsed).__name__} is no key of the transaction log")
    if not isinstance(content, TransactionLogValue):
        return parsed.transactional_id, None
    try:
        state = TransactionState(content.transaction_status)
    except ValueError as error:
        raise ProtocolError(f"transaction state {content.transaction_status} is unknown") from error
    return parsed.transactional_id, TransactionMetadata(
        parsed.transactional_id,
        producer_id=content.producer_id,
        timeout_ms=content.transaction_timeout_ms,
        prev_producer_id=content.previous_producer_id,
        next_producer_id=content.next_producer_id,
        producer_epoch=content.producer_epoch,
        state=state,
        partitions=_flat(content) if state is not TransactionState.EMPTY else NO_PARTITIONS,
        start_ms=content.transaction_start_timestamp_ms,
        last_update_ms=content.transaction_last_update_timestamp_ms,
        client_version=content.client_transaction_version,
    )


def _grouped(metadata: TransactionMetadata) -> list[PartitionsSchema] | None:
    if metadata.state is TransactionState.EMPTY:
        return None
    by_topic = metadata.partitions.by_topic
    return [PartitionsSchema(topic, list(by_topic[topic])) for topic in sorted(by_topic)]


def _flat(value: TransactionLogValue) -> TransactionPartitions:
    topics = value.transaction_partitions or []
    found = TransactionPartitions.of_topics((topic.topic, topic.partition_ids) for topic in topics)
    return found or NO_PARTITIONS

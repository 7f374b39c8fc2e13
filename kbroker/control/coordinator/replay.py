"""Loads a coordinator's partition: every record of its log, in order, through the machine's
replay."""

import asyncio
import logging
import time
from collections.abc import Iterator
from itertools import islice

from kbroker.control.broker import Broker
from kbroker.control.coordinator.machine import Machine, TransactionalMachine
from kbroker.control.metadata.catalogue import Partition
from kbroker.ipc.layout import Slot
from kbroker.log.reader import LogReader
from kbroker.log.walk import walk
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.records import ControlType, Record, RecordBatch, read_marker, read_records
from kbroker.protocol.schema import ProtocolError

log = logging.getLogger(__name__)

BATCHES_AT_ONCE = 256

Read = tuple[RecordBatch, list[Record]]


async def load_partition(broker: Broker, partition: Partition, machine: Machine) -> int:
    """Replay everything below the high watermark, of a replicated log all of it; the number of
    records. Raises KafkaError for an unreadable log."""
    if not broker.is_online(partition):
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{partition.folder} is not open")
    began = time.monotonic()
    words = broker.slots.group(partition.slot)
    start = int(words[Slot.LOG_START])
    end = (int(words[Slot.HW_BASE]), int(words[Slot.HW_POSITION]))
    count = 0
    if (
        partition.replicated
    ):  # the mark of a log that was just opened is not known yet; Kafka reads to the end, too
        end = (int(words[Slot.ACTIVE_BASE]), int(words[Slot.ACTIVE_END]))
    elif int(words[Slot.HIGH_WATERMARK]) == start:
        return count
    batches: Iterator[Read] | None = None
    transactions = machine if isinstance(machine, TransactionalMachine) else None

    def more(reader: LogReader) -> list[Read]:
        nonlocal batches
        if batches is None:
            batches = (
                (placed.batch, list(read_records(placed.batch))) for placed in walk(reader, start, *end)
            )
        return list(islice(batches, BATCHES_AT_ONCE))

    while read := await broker.logs.read(partition.folder, more):
        for batch, records in read:
            count += _replay(machine, transactions, partition, batch, records)
        await asyncio.sleep(0)
    log.info("%s: %d records replayed in %.2f s", partition.folder, count, time.monotonic() - began)
    return count


def _replay(
    machine: Machine,
    transactions: TransactionalMachine | None,
    partition: Partition,
    batch: RecordBatch,
    records: list[Record],
) -> int:
    for record in records:
        try:
            if batch.is_control:
                if transactions is not None:
                    kind, _ = read_marker(batch)
                    transactions.replay_end_of_transaction(
                        partition.index, batch.producer_id, kind is ControlType.COMMIT
                    )
            elif record.key is None:
                log.warning("%s: record %d has no key; passed over", partition.folder, record.offset)
            elif batch.is_transactional and transactions is not None:
                transactions.replay_in_transaction(
                    partition.index, batch.producer_id, record.key, record.value
                )
            else:
                machine.replay(partition.index, record.key, record.value, record.timestamp_ms)
        except ProtocolError as error:
            log.warning(
                "%s: record %d is not understood and passed over: %s", partition.folder, record.offset, error
            )
    return len(records)

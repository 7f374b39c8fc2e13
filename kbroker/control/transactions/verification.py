"""Whether a transactional batch may begin its producer's transaction on a partition: asked by
network processes.

As Kafka's ReplicaManager and AddPartitionsToTxnManager do before an append, and with their error
codes.
"""

import asyncio
import time

from kbroker.control.services import Services
from kbroker.control.transactions.metadata import TV_2
from kbroker.control.transactions.partitions import TopicPartition
from kbroker.control.transactions.service import TransactionService
from kbroker.ipc.messages import PRODUCE_ADDS_FROM, VerifyTransaction
from kbroker.protocol.errors import ErrorCode, KafkaError

ABORTABLE_FROM = 11
"""Produce version whose clients know TRANSACTION_ABORTABLE."""
NOT_ADDED = "Partition was not added to the transaction"
UNABLE = "Unable to verify the partition has been added to the transaction."
NOT_NOW = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


async def verify(services: Services, message: VerifyTransaction) -> tuple[tuple[int, str | None], ...]:
    """Code and text per partition for the Produce answer; code 0 to append."""
    partitions = frozenset(message.partitions)
    try:
        service = services.transactions
        if message.produce_version >= PRODUCE_ADDS_FROM:
            service.check_exists()
            codes = dict.fromkeys(partitions, await _add(service, message, partitions))
        elif not services.broker.config.get_bool("transaction.partition.verification.enable"):
            codes = dict.fromkeys(partitions, ErrorCode.NONE)
        else:
            service.check_exists()
            codes = service.verify_partitions(
                message.transactional_id or "", message.producer_id, message.producer_epoch, partitions
            )
    except KafkaError as error:
        codes = dict.fromkeys(partitions, error.code)
    return tuple(shown_error(codes[each], message.produce_version) for each in message.partitions)


async def _add(
    service: TransactionService, message: VerifyTransaction, partitions: frozenset[TopicPartition]
) -> ErrorCode:
    """Add the partitions; while the transaction before is still completing, try again for a short
    while."""
    give_up = time.monotonic() + service.settings.retry_backoff_max_ms / 1000
    while True:
        code = await service.add_partitions(
            message.transactional_id or "", message.producer_id, message.producer_epoch, partitions, TV_2
        )
        if code is not ErrorCode.CONCURRENT_TRANSACTIONS or time.monotonic() >= give_up:
            return code
        await asyncio.sleep(service.settings.retry_backoff_ms / 1000)


def shown_error(code: ErrorCode, produce_version: int) -> tuple[int, str | None]:
    """Code and text that the producer of this version knows to handle."""
    if code is ErrorCode.PRODUCER_FENCED:
        code = ErrorCode.INVALID_PRODUCER_EPOCH
    elif code is ErrorCode.TRANSACTION_ABORTABLE and produce_version < ABORTABLE_FROM:
        code = ErrorCode.INVALID_TXN_STATE
    if code in NOT_NOW or (code is ErrorCode.CONCURRENT_TRANSACTIONS and produce_version < PRODUCE_ADDS_FROM):
        return int(ErrorCode.NOT_ENOUGH_REPLICAS), f"{UNABLE} Underlying error: {code.name}"
    return int(code), NOT_ADDED if code is ErrorCode.INVALID_TXN_STATE else None

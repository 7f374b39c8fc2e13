"""The end of a transaction on one partition, once its marker is in the log (ProducerStateManager.completeTxn)."""

from kbroker.io.append.drain import Marker
from kbroker.io.append.producer_table import ProducerTable
from kbroker.io.append.rows import AppendRow
from kbroker.io.partition.partition import Partition
from kbroker.log.aborted_transactions import AbortedTransaction


def finish_transaction(partition: Partition, producers: ProducerTable, marker: Marker) -> None:
    """Close the producer's open transaction, note it when aborted, and let the last stable offset go on.

    The producer keeps its sequences unless the marker carries a newer epoch: then they start again. Raises
    OSError.
    """
    slot, end = partition.slot, marker.append.last_offset
    first_offset = producers.end_transaction(
        slot, marker.producer_id, marker.producer_epoch, marker.coordinator_epoch, marker.timestamp_ms, end
    )
    first_unstable = int(partition.row[AppendRow.FIRST_UNSTABLE])
    if 0 <= first_offset <= first_unstable:  # it was the earliest: which one is now?
        first_unstable = producers.first_open_transaction(slot)
    if not marker.commit and first_offset >= 0:
        stable = first_unstable if first_unstable >= 0 else end + 1
        partition.index_aborted(AbortedTransaction(marker.producer_id, first_offset, end, stable))
    partition.transaction_ended(first_unstable)

"""The machine's interfaces to the broker: reads of its state, and orders of markers."""

from collections.abc import Set
from typing import Protocol

from msgspec import Struct

from kbroker.control.transactions.partitions import TopicPartition


class MarkerOrder(Struct, frozen=True):
    """Write a transaction marker to each partition, then run `TransactionShard.complete` with this
    order.

    producer_epoch: the epoch of the markers, already bumped under transactions v2.
    coordinator_epoch: leader epoch of the id's partition of the transaction log.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    partitions: Set[TopicPartition]
    client_version: int


class Markers(Protocol):
    """Executes orders, and retries without end, because a prepared transaction must end."""

    def send(self, order: MarkerOrder) -> None:
        """Begin. A pending order of the same transactional id is replaced."""

    def forget(self, transactional_id: str) -> None:
        """The id's partition of the transaction log is gone."""


class View(Protocol):
    """The present state of the broker."""

    def transaction_version(self) -> int:
        """Finalized level of the feature transaction.version."""

    def coordinator_epoch(self, transactional_id: str) -> int:
        """Leader epoch of the id's partition of the transaction log."""

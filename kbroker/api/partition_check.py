"""Checks before a partition's log is read: it exists, is open, and the client has its current
leader epoch."""

from kbroker.control.broker import Broker
from kbroker.control.metadata.catalogue import Partition
from kbroker.ipc.layout import Slot, SlotState
from kbroker.protocol.errors import ErrorCode, KafkaError

NO_EPOCH = -1


def online(broker: Broker, name: str | None, index: int) -> Partition:
    """The partition, if its log is open. Raises UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR
    (its directory failed), NOT_LEADER_OR_FOLLOWER (it is being opened or recovered)."""
    partition = broker.catalogue.partition(name, index)
    if partition is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    check_state(broker.slots.state(partition.slot))
    return partition


def check_state(state: int) -> None:
    """Raises the error of a log that is not open, see `online`. state: SlotState."""
    if state == SlotState.OFFLINE:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
    if state != SlotState.ONLINE:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def check_leader_epoch(broker: Broker, partition: Partition, current_leader_epoch: int) -> None:
    """Raises FENCED_LEADER_EPOCH if the client has an older leader epoch, UNKNOWN_LEADER_EPOCH if
    it has a newer one (KIP-320)."""
    if current_leader_epoch == NO_EPOCH:
        return
    epoch = broker.slots.word(partition.slot, Slot.LEADER_EPOCH)
    if current_leader_epoch < epoch:
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
    if current_leader_epoch > epoch:
        raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)

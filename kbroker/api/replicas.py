"""A partition's replicas as clients see them: leader, in-sync and offline nodes."""

from typing import NamedTuple

from kbroker.control.broker import Broker
from kbroker.control.metadata.catalogue import Partition
from kbroker.ipc.layout import SlotState
from kbroker.protocol.errors import ErrorCode

NO_LEADER = -1


class ShownReplicas(NamedTuple):
    """Node ids. leader: -1 for none."""

    leader: int
    replicas: list[int]
    in_sync: list[int]
    offline: list[int]

    @property
    def error_code(self) -> ErrorCode:
        """The partition's error code in such an answer."""
        return ErrorCode.LEADER_NOT_AVAILABLE if self.leader == NO_LEADER else ErrorCode.NONE


def shown_replicas(broker: Broker, partition: Partition) -> ShownReplicas:
    """A partition as Metadata and similar APIs show it. A replica whose log dir failed is offline
    and not in sync."""
    gone = [r for r in partition.replicas if broker.slots.state(r.slot) == SlotState.OFFLINE]
    led = partition.has_leader and partition.leader not in gone
    return ShownReplicas(
        broker.nodes.node_of(partition.leader) if led else NO_LEADER,
        broker.nodes.of(partition.replicas),
        broker.nodes.of(r for r in partition.replicas if r.in_sync and r not in gone),
        broker.nodes.of(gone),
    )

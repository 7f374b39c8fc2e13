"""The log dirs that logs are being moved to: a part of the broker's state, by slot and
generation."""

from collections.abc import Iterable

from kbroker.control.broker import Broker
from kbroker.control.metadata.catalogue import Replica


def key_of(replica: Replica) -> tuple[int, int]:
    """The key of a replica's move."""
    return replica.slot, replica.generation


def remember(broker: Broker, replica: Replica, log_dir: str) -> None:
    """A ``-future`` folder was found at start."""
    broker.move_targets[key_of(replica)] = log_dir


def forget(broker: Broker, replicas: Iterable[Replica]) -> dict[str, set[str]]:
    """End the moves of deleted logs; returns the target log dirs by source."""
    found: dict[str, set[str]] = {}
    for replica in replicas:
        if (target := broker.move_targets.pop(key_of(replica), None)) is not None:
            found.setdefault(replica.log_dir, set()).add(target)
    return found

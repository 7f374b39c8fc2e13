"""Answers of which some parts come later, from an IO worker or a log: put together without a task for each part."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from kbroker.control.broker import Broker
from kbroker.control.catalogue import Partition
from kbroker.control.coordinator.machine import Deferred
from kbroker.protocol.schema import Struct


def together(parts: Sequence[Any], whole: Callable[[Iterator[Any]], Struct]) -> Struct | Deferred:
    """The answer that `whole` makes of all parts, in their order; a Deferred of it while any of them is one."""
    found = list(parts)
    late = [number for number, part in enumerate(found) if isinstance(part, Deferred)]
    if not late:
        return whole(iter(found))
    answer = Deferred()
    left = len(late)

    def came(number: int, value: Any) -> None:
        nonlocal left
        found[number] = value
        left -= 1
        if not left:
            answer.complete(whole(iter(found)))

    for number in late:
        parts[number].on_complete(partial(came, number))
    return answer


def of_worker(broker: Broker, partition: Partition, call: object, part: Callable[[Any], Any]) -> Deferred:
    """What `part` makes of the reply of the partition's IO worker, which may be a KafkaError."""
    answer = Deferred()
    broker.links.ask_worker(partition.worker, call, lambda reply: answer.complete(part(reply)))
    return answer

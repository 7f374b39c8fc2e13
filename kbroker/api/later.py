"""Answers of which some parts come later, from an IO worker or a log, or that are changed when they come: no tasks."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any

from kbroker.control.broker import Broker
from kbroker.control.coordinator.machine import Deferred
from kbroker.control.metadata.catalogue import Partition
from kbroker.protocol.errors import KafkaError
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


def by_topic(
    topics: Sequence[tuple[str, Sequence[Any]]],
    topic: Callable[[str, list[Any]], Any],
    whole: Callable[[list[Any]], Struct],
) -> Struct | Deferred:
    """The answer that `whole` makes of the topics that `topic` makes of a name and its parts, each of which may be a
    Deferred."""

    def all_of(found: Iterator[Any]) -> Struct:
        return whole([topic(name, [next(found) for _ in parts]) for name, parts in topics])

    return together([part for _, parts in topics for part in parts], all_of)


def of_worker(
    broker: Broker,
    partition: Partition,
    call: object,
    part: Callable[[Any], Any],
    failed: Callable[[KafkaError], Any],
) -> Deferred:
    """The result of `part` on the IO worker's reply, or of `failed` on its error."""
    answer = Deferred()

    def answered(reply: Any) -> None:
        answer.complete(failed(reply) if isinstance(reply, KafkaError) else part(reply))

    broker.links.ask_worker(partition.worker, call, answered)
    return answer


def then(answer: Any, step: Callable[[Any], Any]) -> Any:
    """What `step` makes of an answer that is there, that is a Deferred (also of a KafkaError, which stays one), or that
    must be awaited: of the same kind."""
    if isinstance(answer, Deferred):
        made = Deferred()
        answer.on_complete(lambda found: made.complete(_made(found, step)))
        return made
    if isinstance(answer, Awaitable):
        return _awaited(answer, step)
    return step(answer)


def _made(found: Any, step: Callable[[Any], Any]) -> Any:
    try:
        return found if isinstance(found, KafkaError) else step(found)
    except KafkaError as error:
        return error


async def _awaited(answer: Awaitable[Any], step: Callable[[Any], Any]) -> Any:
    return step(await answer)

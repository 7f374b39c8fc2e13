"""Answers of which some parts come later, from an IO worker or a log, or that are changed when they
come: no tasks."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, TypeVar

from kbroker.control.broker import Broker
from kbroker.control.coordinator.machine import Deferred
from kbroker.control.metadata.catalogue import Partition
from kbroker.protocol.errors import KafkaError
from kbroker.protocol.schema import Struct
from kbroker.protocol.slices import is_sliced, paced

T = TypeVar("T")
Answer = Struct | Deferred | Awaitable[Struct]
AT_ONCE: Final = 64


def together(parts: Sequence[Any], whole: Callable[[Iterator[Any]], Struct]) -> Answer:
    """The answer that `whole` makes of all parts, in their order; later while any of them is a
    Deferred."""
    found = list(parts)
    late = [number for number, part in enumerate(paced(found)) if isinstance(part, Deferred)]
    if not late:
        return whole(iter(found))
    answer = Deferred()
    left = len(late)
    sliced = is_sliced()

    def came(number: int, value: Any) -> None:
        nonlocal left
        found[number] = value
        left -= 1
        if not left:
            answer.complete(None if sliced else whole(iter(found)))

    for number in paced(late):
        parts[number].on_complete(partial(came, number))
    return _whole_in_slices(answer, partial(whole, iter(found))) if sliced else answer


async def _whole_in_slices(all_came: Deferred, whole: Callable[[], Struct]) -> Struct:
    """Made by a task of the long request: where the last part comes in, nobody would stop for
    others."""
    await completion(all_came)
    return whole()


def completion(deferred: Deferred) -> asyncio.Future[Any]:
    """The value of a Deferred, for a coroutine."""
    found: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def came(value: Any) -> None:
        if not found.done():  # who waits may have been cancelled
            found.set_result(value)

    deferred.on_complete(came)
    return found


async def in_groups(waits: Iterable[Awaitable[T]]) -> list[T]:
    """The results of all, AT_ONCE at a time: a task for each of a million would stop all other
    clients."""
    found: list[T] = []
    source = iter(waits)
    while some := list(islice(source, AT_ONCE)):
        found += await asyncio.gather(*some)
    return found


def by_topic(
    topics: Sequence[tuple[str, Sequence[Any]]],
    topic: Callable[[str, list[Any]], Any],
    whole: Callable[[list[Any]], Struct],
) -> Answer:
    """The answer that `whole` makes of the topics that `topic` makes of a name and its parts, each
    of which may be a Deferred."""

    def all_of(found: Iterator[Any]) -> Struct:
        return whole([topic(name, [next(found) for _ in paced(parts)]) for name, parts in paced(topics)])

    return together([part for _, parts in paced(topics) for part in paced(parts)], all_of)


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
    """What `step` makes of an answer that is there, that is a Deferred (also of a KafkaError, which
    stays one), or that must be awaited: of the same kind."""
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

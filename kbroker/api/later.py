"""Answers with parts that arrive later (from an IO worker, a log or a coroutine) or that are
changed on arrival."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from functools import partial, wraps
from itertools import islice
from typing import Any, Final, ParamSpec, TypeVar

from kbroker.control.broker import Broker
from kbroker.control.coordinator.machine import Deferred
from kbroker.control.coordinator.running import Running, completion
from kbroker.control.metadata.catalogue import Partition
from kbroker.ipc.cached_answers import CachedAnswer
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.schema import Struct
from kbroker.protocol.slices import Table, emptied, emptying, in_slices, is_sliced, paced

T = TypeVar("T")
P = ParamSpec("P")
AT_ONCE: Final = 64

Answer = Struct | CachedAnswer | Deferred | None
"""The result of a handler: the response, its encoded form, None to close the connection, or a
Deferred of one of these. If the request fails as a whole, the handler raises KafkaError or
completes the Deferred with it."""


def running(work: Callable[P, Coroutine[Any, Any, Answer]]) -> Callable[P, Deferred]:
    """Decorator of a handler (or a part of one) that always waits."""

    @wraps(work)
    def begin(*args: P.args, **kwargs: P.kwargs) -> Deferred:
        return Running(work(*args, **kwargs))

    return begin


def check_time(timeout_ms: int, has_changes: Callable[[], bool] = lambda: True) -> None:
    """Refuse changes for which the client leaves no time, as the events of Kafka's controller
    (QuorumController.appendWriteEvent). Raises REQUEST_TIMED_OUT.

    has_changes: whether any are left after the checks that come before."""
    if timeout_ms <= 0 and has_changes():
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)


def together(found: list[Any], whole: Callable[[Iterator[Any]], Struct]) -> Answer:
    """The answer that `whole` makes from all parts, in order; a Deferred if any part is one. The
    list of parts is changed, and then emptied in slices."""
    late = [number for number, part in enumerate(paced(found)) if isinstance(part, Deferred)]

    def made(_: object = None) -> Struct:
        with emptying(found):
            return whole(iter(found))

    if not late:
        return made()
    all_came, left = Deferred(), len(late)

    def came(number: int, value: Any) -> None:
        nonlocal left
        found[number] = value
        left -= 1
        if not left:
            all_came.complete(None)

    for number in paced(late):
        found[number].on_complete(partial(came, number))
    emptied(late)
    return then(all_came, made)


async def in_groups(waits: Iterable[Awaitable[T]]) -> list[T]:
    """The results of all coroutines, AT_ONCE at a time: a million tasks at once would block all
    other clients."""
    found: list[T] = []
    source = iter(waits)
    while some := list(islice(source, AT_ONCE)):
        found += await asyncio.gather(*some)
    return found


async def results_of(parts: Iterable[T | Callable[[], Coroutine[Any, Any, T]]]) -> list[T]:
    """The results of all parts, in order. A part is a result, or a coroutine function that returns
    it; these run AT_ONCE at a time, in slices if this code does: each may be long, too."""
    found: list[Any] = list(parts)
    late = [number for number, part in enumerate(paced(found)) if callable(part)]
    results = await in_groups(in_slices(found[number]()) for number in late)
    for number, result in zip(paced(late), results, strict=True):
        found[number] = result
    emptied(late, results)
    return found


def by_topic(
    topics: list[tuple[str, list[Any]]],
    topic: Callable[[str, list[Any]], Any],
    whole: Callable[[list[Any]], Struct],
) -> Answer:
    """The answer that `whole` makes from topics, which `topic` makes from a name and its parts.
    Parts may be Deferred. The lists are emptied in slices."""
    counts = [(name, len(parts)) for name, parts in paced(topics)]
    every = [part for _, parts in paced(topics) for part in paced(parts)]
    for _, parts in topics:
        emptied(parts)
    emptied(topics)

    def all_of(found: Iterator[Any]) -> Struct:
        with emptying(counts):
            return whole([topic(name, list(paced(islice(found, count)))) for name, count in paced(counts)])

    return together(every, all_of)


def of_distinct(
    topics: Sequence[Any],
    part: Callable[[str, Any], Any],
    topic: Callable[[str, list[Any]], Any],
    whole: Callable[[list[Any]], Struct],
) -> Answer:
    """As `by_topic`, of a request's topics: `part` makes the part of a name and a partition's
    request. Of those that name a partition twice, the last one counts; a topic without partitions
    gets no answer."""
    by_partition = Table(
        ((one.name, each.partition_index), each) for one in topics for each in one.partitions
    )
    parts: Table[str, list[Any]] = Table()
    for (name, _), each in by_partition.items():
        parts.setdefault(name, list).append(part(name, each))
    by_partition.clear()
    topics = list(parts.items())
    parts.clear()
    return by_topic(topics, topic, whole)


def of_worker(
    broker: Broker,
    partition: Partition,
    call: object,
    part: Callable[[Any], Any],
    failed: Callable[[KafkaError], Any],
) -> Deferred:
    """`part` of the IO worker's reply, or `failed` of its error."""
    answer = Deferred()

    def answered(reply: Any) -> None:
        answer.complete(failed(reply) if isinstance(reply, KafkaError) else part(reply))

    broker.links.ask_worker(partition.worker, call, answered)
    return answer


def then(answer: Any, step: Callable[[Any], Any], failed: Callable[[KafkaError], Any] | None = None) -> Any:
    """`step` of an answer; a Deferred if the answer is one. In slices a task of the request runs
    the step, because the code that receives the last part does not yield to others.

    failed: makes an answer from a late KafkaError, which is passed to `step`. Without it, and for
    other exceptions, the exception is the answer.
    """
    if not isinstance(answer, Deferred):
        return step(answer)
    made = Deferred()
    came = Running(completion(answer)) if is_sliced() else answer
    came.on_complete(lambda found: made.complete(_made(found, step, failed)))
    return made


def _made(found: Any, step: Callable[[Any], Any], failed: Callable[[KafkaError], Any] | None) -> Any:
    try:
        if failed is not None and isinstance(found, KafkaError):
            found = failed(found)
        return found if isinstance(found, Exception) else step(found)
    except Exception as error:
        return error

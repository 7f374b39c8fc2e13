"""Closing the logs of deleted topics and replicas: IO workers close them and rename their folders
for removal, then their slots are free."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from kbroker.control import log_openings
from kbroker.control.broker import Broker
from kbroker.control.changes.move_targets import forget
from kbroker.control.changes.retirement import offline_dirs_of_same_sites, remnants_of, retire_all
from kbroker.control.links.links import CALLS_AT_ONCE, bounded
from kbroker.control.store.change import Deletion
from kbroker.ipc.link import AsyncLink
from kbroker.ipc.messages import ClosePartition
from kbroker.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

CLOSE_S: Final = 5.0
"""Seconds that a deletion waits for the IO workers. Kafka waits for no broker."""
RETRY_S: Final = 30.0
"""Interval of the retries of a deletion that the disk refuses."""
Attempt = Callable[[Broker, Sequence[Deletion]], Awaitable[Sequence[Deletion]]]
"""Tries deletions again; returns those that are finished."""


async def close_deleted(broker: Broker, deletions: Sequence[Deletion]) -> None:
    """Close logs and rename their folders for removal, then free their slots. A failed deletion is
    logged, keeps its slot, and is retried each RETRY_S seconds; until then the topic's name is not
    free.

    Logs of an IO worker that hangs or is away are closed when it continues. Until then there can be
    no new log in their folders: the worker would rename them. Only the first deletion waits for
    such a worker: hundreds of reassignments may end at it, one by one. The closing of more than
    MAX_AWAITED logs takes longer than a client should wait, as their opening does: it continues
    after the change."""
    by_worker: dict[int, list[Deletion]] = {}
    for one in deletions:
        by_worker.setdefault(one.partition.worker, []).append(one)
    if not by_worker:
        return
    calls = {worker: asyncio.create_task(_close(broker, each)) for worker, each in by_worker.items()}
    if len(deletions) > log_openings.MAX_AWAITED:
        for worker, each in by_worker.items():
            _leave(broker, each, calls[worker])
        return
    awaited = [call for worker, call in calls.items() if not broker.closing.hanging[worker]]
    if awaited:
        await asyncio.wait(awaited, timeout=CLOSE_S)
    late = [worker for worker, call in calls.items() if not call.done()]
    if found := [worker for worker in late if not broker.closing.hanging[worker]]:
        log.warning("IO workers %s hang; they close deleted logs later", sorted(found))
    for worker in late:
        call = calls.pop(worker)
        broker.closing.hanging[worker] += 1
        call.add_done_callback(partial(_continues, broker, worker))
        _leave(broker, by_worker[worker], call)
    deletions = [one for worker in calls for one in by_worker[worker]]
    await _finish(broker, deletions, [one for call in calls.values() for one in call.result()])


def _continues(broker: Broker, worker: int, _: object) -> None:
    broker.closing.hanging[worker] -= 1


def _leave(broker: Broker, deletions: Sequence[Deletion], call: "asyncio.Task[list[Deletion]]") -> None:
    """Let logs be closed after the change. Until then the names of their topics are not free."""
    names = _names(deletions)
    broker.closing.begin(names)
    broker.late_closings.start(_close_later(broker, deletions, call, names))


async def _close_later(
    broker: Broker, deletions: Sequence[Deletion], call: "asyncio.Task[list[Deletion]]", names: set[str]
) -> None:
    try:
        closed = await call
        async with broker.changing:
            await _finish(broker, deletions, closed)
    finally:
        broker.closing.end(names)


async def close_orphans(broker: Broker, worker: int, link: AsyncLink) -> None:
    """Finish deletions that a dead predecessor of control had begun, at an IO worker that has just
    sent Hello. Raises LinkClosed when it dies."""
    orphans = [one for one in broker.orphans if one.partition.worker == worker]
    if not orphans:
        return
    closed = await _close(broker, orphans, link)
    here = set(broker.orphans).intersection(orphans)  # the worker's successor may be served meanwhile
    broker.orphans = [one for one in broker.orphans if one not in here]
    try:
        await _finish(broker, [*here], [one for one in closed if one in here], moves_known=False)
    finally:
        broker.closing.end(one.partition.topic for one in here)


async def names_are_free(broker: Broker, names: Iterable[str]) -> None:
    """Wait until logs of deleted topics of these names are closed, but for no IO worker that
    hangs."""
    with suppress(TimeoutError):
        async with asyncio.timeout(CLOSE_S):
            await broker.closing.wait(names)


async def _close(
    broker: Broker, deletions: Sequence[Deletion], link: AsyncLink | None = None
) -> list[Deletion]:
    """Let IO workers close logs; returns those that are closed. link: of the worker that owns them
    all, when it has just sent Hello. Raises LinkClosed when this worker dies."""

    async def close(one: Deletion) -> Any:
        call = ClosePartition(one.partition.slot)
        if link is not None:
            return await link.call(call)
        while True:
            try:
                return await broker.links.call_worker(one.partition.worker, call)
            except KafkaError as error:
                if error.code is not ErrorCode.REQUEST_TIMED_OUT:  # it has been away for long
                    raise

    closed = []
    for one, result in zip(
        deletions, await bounded(CALLS_AT_ONCE, [partial(close, one) for one in deletions]), strict=True
    ):
        if isinstance(result, KafkaError):
            log.error("%s could not be deleted: %s", one.partition.folder, result)
        else:
            closed.append(one)
    return closed


async def _finish(
    broker: Broker, deletions: Sequence[Deletion], closed: Sequence[Deletion], moves_known: bool = True
) -> None:
    """Logs are closed: rename folders that are still there, and free the slots. The other deletions
    are retried. moves_known: where the logs were being moved is known."""
    finished: Sequence[Deletion] = []
    try:
        finished = await _retired(broker, closed, moves_known)
    except Exception:  # the topics are deleted: what is left is retried
        log.exception("%d deletions failed", len(deletions))
    if failed := _to_retry(broker, deletions, finished):
        broker.closing.begin(_names(failed))
        broker.late_closings.start(_retry(broker, failed, _close_again))


def retry_refused(broker: Broker) -> None:
    """Retry the deletions that a disk refused while control started."""
    refused, broker.closing.refused = broker.closing.refused, []
    if refused:
        broker.late_closings.start(_retry(broker, refused, _rename_again))


async def _retry(broker: Broker, failed: Sequence[Deletion], attempt: Attempt) -> None:
    """A disk that is full or read-only may heal, also that of the store. Deletions of a log dir
    that goes offline wait for the next start, as the log dir does. Their names are pending."""
    names = _names(failed)
    log.warning("%d deleted logs of %d topics are not removed yet; retried", len(failed), len(names))
    try:
        while failed:
            await asyncio.sleep(RETRY_S)
            finished: Sequence[Deletion] = []
            try:
                finished = await attempt(broker, failed)
            except Exception:  # the names of logs that are not removed must not become free
                log.exception("a retry of %d deletions failed", len(failed))
            failed = _to_retry(broker, failed, finished)
            remaining = _names(failed)
            broker.closing.end(names - remaining)
            names = remaining
    finally:
        broker.closing.end(names)


def _names(deletions: Iterable[Deletion]) -> set[str]:
    return {one.partition.topic for one in deletions}


async def _close_again(broker: Broker, failed: Sequence[Deletion]) -> Sequence[Deletion]:
    closed = await _close(broker, failed)
    async with broker.changing:
        return await _retired(broker, closed, moves_known=False)


async def _rename_again(broker: Broker, failed: Sequence[Deletion]) -> Sequence[Deletion]:
    """No IO worker has these logs open, and their slots may be those of other logs by now."""
    async with broker.changing:
        return await _renamed(broker, failed, broker.nodes.log_dirs_of_same_site())


def _to_retry(
    broker: Broker, deletions: Sequence[Deletion], finished: Sequence[Deletion]
) -> Sequence[Deletion]:
    done = set(finished)
    return [one for one in deletions if one not in done and not broker.dir_errors.of(one.partition.log_dir)]


async def _retired(broker: Broker, closed: Sequence[Deletion], moves_known: bool) -> Sequence[Deletion]:
    """The deletions that are finished now."""
    moving = forget(broker, [one.partition for one in closed])
    targets = moving if moves_known else broker.nodes.log_dirs_of_same_site()
    finished = await _renamed(broker, closed, targets)
    if finished:
        await broker.logs.forget([one.partition.folder for one in finished])
        broker.ownership.release(one.partition for one in finished)
    return finished


async def _renamed(
    broker: Broker, closed: Sequence[Deletion], targets: Mapping[str, Collection[str]]
) -> Sequence[Deletion]:
    """Rename folders that are still there; returns the deletions that are finished, and stored as
    such. targets: as of `retire_all`."""
    reachable = [one for one in closed if not broker.dir_errors.of(one.partition.log_dir)]
    finished = await asyncio.to_thread(retire_all, reachable, targets, remnants_of(broker, reachable))
    absent = offline_dirs_of_same_sites(broker, finished)
    try:
        if finished:
            await broker.in_store(lambda store: store.finish_deletions(finished, absent))
    except KafkaError as error:
        log.error("the end of %d deletions could not be stored: %s", len(finished), error)
        return []
    return finished

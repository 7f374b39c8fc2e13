"""Opening logs beside other work: changes of a topic wait until its logs are open."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Final

from kbroker.control.metadata.catalogue import Partition, Topic
from kbroker.control.store.change import Deletion
from kbroker.ipc.background import Background
from kbroker.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

MAX_AWAITED = 200
"""Maximum of logs. A client that creates at most this many can produce to each of them as soon as
the request is answered."""

OPEN_S: Final = 10.0
"""Seconds that a request waits for its logs: longer than replicas of an IO worker that hangs are
waited for (broker.session.timeout.ms), so that other replicas lead soon. Kafka waits for no
broker."""

ANSWER_S: Final = 1.0
"""Seconds before a client's own timeout at which a request that still waits is answered."""

MAX_OPEN_S: Final = 300.0
"""The longest wait for logs, whatever timeout a client names."""

AGAIN_S: Final = 1.0
"""OPEN_S while logs of an earlier request are not open yet. Changes of topics run one after the
other, so each creation adds its wait to that of all later changes."""

NewLogs = tuple[Topic, Sequence[Partition]]
Open = Callable[[Sequence[NewLogs]], Awaitable[dict[str, KafkaError]]]


def opened_by(timeout_ms: int = 0) -> float:
    """The time of the loop's clock until which a request waits for the logs of its topics.

    timeout_ms: of the request. Logs of thousands of partitions that were created just now may take
    longer than OPEN_S, and a client that waits for the change anyway is not refused before."""
    wait_s = max(OPEN_S, min(timeout_ms / 1000 - ANSWER_S, MAX_OPEN_S))
    return asyncio.get_running_loop().time() + wait_s


class PendingTopics:
    """Names of topics with pending work: how often, because they are named for each part of it.

    Runs in: control. Owner: Broker. It is used only from the event loop."""

    def __init__(self) -> None:
        self._pending: Counter[str] = Counter()
        self._ended = asyncio.Event()

    def begin(self, names: Iterable[str]) -> None:
        """Work on these topics begins; one may be named several times."""
        self._pending.update(names)

    def end(self, names: Iterable[str]) -> None:
        """Work on these topics, as named to `begin`, has ended."""
        self._pending -= Counter(names)
        self._ended.set()

    def pending(self, name: str) -> bool:
        """Whether work on the topic is pending."""
        return name in self._pending

    async def wait(self, names: Iterable[str]) -> None:
        """Wait until no work on these topics is pending."""
        if not self._pending:
            return
        remaining = set(names)
        while not remaining.isdisjoint(self._pending):
            self._ended.clear()
            await self._ended.wait()


class LogClosings(PendingTopics):
    """Runs in: control. Owner: Broker. Pending: deleted logs that an IO worker may still have open,
    or whose folders are not renamed yet.

    hanging: by IO worker, the deletions that are pending because they no longer wait for it.
    refused: deletions that a disk refused at control's start."""

    def __init__(self) -> None:
        super().__init__()
        self.hanging: Counter[int] = Counter()
        self.refused: list[Deletion] = []


class LogOpenings(PendingTopics):
    """Runs in: control. Owner: Broker. Pending: openings of logs; topics are changed or deleted
    after they have ended.

    Apache Kafka answers CreateTopics and CreatePartitions once they are stored, and makes the logs
    afterwards; until then it answers NOT_LEADER_OR_FOLLOWER. A request for more than MAX_AWAITED
    logs is served so here, too: their files take longer than a client should wait. So is one whose
    logs are not open after OPEN_S (AGAIN_S), as when a site's disk hangs. open_logs: has the IO
    workers open logs; the errors by topic. without_room: slots and generations of logs that
    found no room when they were to be opened, the last one at the end (`late_openings.py`).
    """

    def __init__(self, open_logs: Open) -> None:
        super().__init__()
        self.without_room = dict[tuple[int, int], None]()
        self._open_logs = open_logs
        self._late = 0  # requests that were answered before their logs were open, because these took too long
        self._later = Background(log, "new partitions could not be opened")
        self.changes = Background(log, "a change of topics whose logs opened late could not be applied")

    @contextmanager
    def opening(self, names: Iterable[str]) -> Iterator[None]:
        """Meanwhile logs of these topics are being opened."""
        listed = list(names)
        self.begin(listed)
        try:
            yield
        finally:
            self.end(listed)

    async def still_pending(self, names: Iterable[str], end_s: float) -> set[str]:
        """Wait until no logs of these topics are being opened, but not after `end_s` of the loop's
        clock; returns the names of those whose logs still are."""
        listed = set(names)
        with suppress(TimeoutError):
            async with asyncio.timeout_at(end_s):
                await self.wait(listed)
        return {name for name in listed if self.pending(name)}

    @asynccontextmanager
    async def when_opened(
        self, lock: asyncio.Lock, names: Iterable[str], end_s: float
    ) -> AsyncIterator[set[str]]:
        """Hold `lock` while no logs of these topics are being opened. Other changes take it while
        this one waits. Yields the names of those whose logs still are at `end_s`."""
        listed = set(names)
        while True:
            await self.still_pending(listed, end_s)
            async with lock:
                late = {name for name in listed if self.pending(name)}
                if not late or asyncio.get_running_loop().time() >= end_s:
                    yield late
                    return

    @asynccontextmanager
    async def when_topic_opened(
        self, lock: asyncio.Lock, name: str, end_s: float | None = None
    ) -> AsyncIterator[None]:
        """Like `when_opened`, for the logs of one topic. end_s: None for `opened_by`. Raises
        REQUEST_TIMED_OUT at `end_s`, without the lock."""
        end_s = opened_by() if end_s is None else end_s
        while True:
            if await self.still_pending([name], end_s):
                why = f"Logs of topic '{name}' are still being opened."
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, why)
            async with lock:
                if not self.pending(name):
                    yield
                    return

    async def open(self, new: Sequence[NewLogs]) -> dict[str, KafkaError]:
        """Begin to open logs; waits for the end unless they are many, or a disk hangs: all other
        changes of topics would wait with it. Errors by topic, of those it waited for."""
        opening = asyncio.ensure_future(self._open_logs(new))
        if sum(len(p.replicas) for _, partitions in new for p in partitions) <= MAX_AWAITED:
            limit_s = AGAIN_S if self._late else OPEN_S
            await asyncio.wait([opening], timeout=limit_s)
            if opening.done():
                return opening.result()
            log.warning("new logs are not open after %d s; their topics are used before", limit_s)
            self._late += 1
            opening.add_done_callback(self._not_late)
        names = [topic.name for topic, _ in new]
        self.begin(names)
        self._later.start(self._open_later(names, opening))
        return {}

    def leave(self, opening: Awaitable[dict[str, KafkaError]]) -> None:
        """Let an opening continue, however long its request waits for it: its errors are logged,
        and logs that find no room are opened later."""
        self._later.start(self._open_later((), opening))

    def _not_late(self, _: object) -> None:
        self._late -= 1

    async def _open_later(self, names: Sequence[str], opening: Awaitable[dict[str, KafkaError]]) -> None:
        try:
            errors = await opening
        finally:
            self.end(names)
        for name, error in errors.items():  # they exist, offline, like those of a failed directory
            log.error("new partitions of %s: %s", name, error)

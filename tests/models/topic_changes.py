"""Changes of a topic while its logs are being opened (kbroker/control/log_openings.py,
changes/topic_change.py, io_workers.py, io/commands.py).

A request for many logs is answered when it is stored; its logs are opened afterwards. A starting IO
worker's logs are opened in the same way. Growing or deleting the topic waits until none of its logs
is being opened. A worker may start when the deletion has waited and is being stored. A deleted
topic's slot may be taken by another topic at once.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

GREETINGS = 3


class TopicState(NamedTuple):
    """stored: the topic is. counted: openings of its log that are in progress, of which the
    OpenPartition call is not sent yet: by the creation (later), by greetings (listed); or it is on
    its way (calls). open: the IO worker has the log; folder: it is on disk. deleting: what the
    deletion does next. greetings: of the successors of killed workers."""

    stored: bool = False
    counted: int = 0
    later: bool = False
    listed: int = 0
    calls: int = 0
    open: bool = False
    folder: bool = False
    deleting: str = ""
    created: bool = False
    greetings: int = 0


@dataclass(frozen=True)
class TopicModel:
    """Each flag puts a bug in.

    no_wait: a deletion does not wait for logs that are being opened. counted_once: a set of names
    instead of a count, so that one of two openings ends both. opens_deleted: the logs of a starting
    worker are opened although their topic was deleted meanwhile. closes_opening: the worker closes
    a log that it is opening.
    """

    no_wait: bool = False
    counted_once: bool = False
    opens_deleted: bool = False
    closes_opening: bool = False

    @property
    def promises(self) -> Mapping[str, Callable[[TopicState], bool]]:
        return {
            "a deleted topic has no log": lambda s: s.deleting != "done" or not (s.open or s.folder),
        }

    def starts(self) -> Iterator[TopicState]:
        yield TopicState()

    def is_end(self, s: TopicState) -> bool:
        return s.deleting == "done"

    def steps(self, s: TopicState) -> Iterator[tuple[str, TopicState]]:
        if not s.created:
            begun = s._replace(created=True, stored=True, later=True, counted=self._one_more(s))
            yield "create_topics: stored, answered", begun
        if s.stored and s.greetings < GREETINGS:
            # the worker is killed, so what was on its way to it is lost; its successor gets all
            # logs
            begun = s._replace(listed=s.listed + 1, counted=self._one_more(s))
            yield "IoWorkers.greet: opening", begun._replace(open=False, greetings=s.greetings + 1)
        if s.later:
            yield "LogOpenings._open_later: OpenPartition", s._replace(later=False, calls=s.calls + 1)
        if s.listed and (s.stored or self.opens_deleted):
            yield "IoWorkers._open: OpenPartition", s._replace(listed=s.listed - 1, calls=s.calls + 1)
        elif s.listed:
            skipped = s._replace(listed=s.listed - 1, counted=self._one_less(s))
            yield "IoWorkers._open: deleted, opening ends", skipped
        if s.calls:
            opened = s._replace(calls=s.calls - 1, counted=self._one_less(s), open=True, folder=True)
            yield "the log is open: opening ends", opened
        yield from self._delete(s)

    def _one_more(self, s: TopicState) -> int:
        return 1 if self.counted_once else s.counted + 1

    def _one_less(self, s: TopicState) -> int:
        return 0 if self.counted_once else s.counted - 1

    def _delete(self, s: TopicState) -> Iterator[tuple[str, TopicState]]:
        if s.stored and not s.deleting:
            yield "delete_topics: LogOpenings.wait", s._replace(deleting="wait")
        elif s.deleting == "wait" and (not s.counted or self.no_wait):
            yield "delete_topics: it has waited", s._replace(deleting="store")
        elif s.deleting == "store":
            yield "delete_topics: stored", s._replace(deleting="close", stored=False)
        elif s.deleting == "close" and (not s.calls or self.closes_opening):
            yield "ClosePartition: closed, renamed", s._replace(deleting="done", open=False, folder=False)

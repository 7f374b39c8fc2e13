"""Changes of a topic while its logs are being opened (kbroker/control/log_openings.py,
changes/topic_change.py).

A request for many logs is answered when it is stored; its logs are opened afterwards. A starting IO
worker's logs are opened in the same way. Growing or deleting the topic waits until none of its logs
is being opened. A deleted topic's slot may be taken by another topic at once.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

GREETINGS = 3


class TopicState(NamedTuple):
    """stored: the topic is. counted: openings of its log that are in progress; calls: OpenPartition
    calls on their way. open: the IO worker has the log; folder: it is on disk. deleting: what the
    deletion does next. greetings: of the successors of killed workers."""

    stored: bool = False
    counted: int = 0
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
    instead of a count, so that one of two openings ends both.
    """

    no_wait: bool = False
    counted_once: bool = False

    @property
    def promises(self) -> Mapping[str, Callable[[TopicState], bool]]:
        return {
            "a deleted topic has no log": lambda s: (
                s.deleting != "done" or not (s.open or s.folder or s.calls)
            )
        }

    def starts(self) -> Iterator[TopicState]:
        yield TopicState()

    def is_end(self, s: TopicState) -> bool:
        return s.deleting == "done"

    def steps(self, s: TopicState) -> Iterator[tuple[str, TopicState]]:
        if not s.created:
            yield (
                "create_topics: stored, answered",
                s._replace(created=True, stored=True, **self._begun(s, call=False)),
            )
        if s.stored and s.deleting in ("", "wait") and s.greetings < GREETINGS:
            # the worker is killed, so what was on its way to it is lost; its successor gets all
            # logs
            yield (
                "IoWorkers.greet: opening",
                s._replace(open=False, greetings=s.greetings + 1, **self._begun(s, call=True)),
            )
        if s.stored and s.counted and s.calls < s.counted and s.deleting != "done":
            yield "LogOpenings._open_later: OpenPartition", s._replace(calls=s.calls + 1)
        if s.calls:
            counted = 0 if self.counted_once else s.counted - 1
            yield (
                "the log is open: opening ends",
                s._replace(calls=s.calls - 1, counted=counted, open=True, folder=True),
            )
        yield from self._delete(s)

    def _begun(self, s: TopicState, call: bool) -> dict[str, int]:
        counted = 1 if self.counted_once else s.counted + 1
        return {"counted": counted, "calls": s.calls + call}

    def _delete(self, s: TopicState) -> Iterator[tuple[str, TopicState]]:
        if s.stored and not s.deleting:
            yield "delete_topics: LogOpenings.wait", s._replace(deleting="wait")
        elif s.deleting == "wait" and (not s.counted or self.no_wait):
            yield "delete_topics: stored", s._replace(deleting="close", stored=False)
        elif s.deleting == "close":
            yield "ClosePartition: closed, renamed", s._replace(deleting="done", open=False, folder=False)

"""The ring between two processes, and the sleep flag of the one that takes from it
(kbroker/ipc/ring.py).

The producer is a pump, control's Appender or an IO worker with completions; the consumer an IO
worker's `_turn`, or the Appender's `_on_event`. Stores go through a store buffer: an order that no
fence or release makes is not there.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tests.models.store_buffer import Store, Stores, Words, arrivals, put, seen

CAPACITY = 2
ENTRIES = 3
HEAD, TAIL, SLEEPING, FIRST_ENTRY = 0, 1, 2, 3
WORDS = FIRST_ENTRY + CAPACITY


class RingState(NamedTuple):
    """producer, consumer: what each does next. pushing, taking: stores of each that have not
    arrived. rung: the eventfd is written. taken: entries in the order in which they were taken."""

    words: Words = (0,) * WORDS
    producer: str = "room"
    consumer: str = "look"
    pushing: Stores = ()
    taking: Stores = ()
    rung: bool = False
    taken: tuple[int, ...] = ()


@dataclass(frozen=True)
class RingModel:
    """Each flag puts a bug in.

    head_is_plain: HEAD is published with a plain store. tail_first: TAIL is published before the
    entry is read. no_fence: `wake` looks at the flag without a fence. one_look: the consumer blocks
    without its second look.
    """

    head_is_plain: bool = False
    tail_first: bool = False
    no_fence: bool = False
    one_look: bool = False

    @property
    def promises(self) -> Mapping[str, Callable[[RingState], bool]]:
        return {
            "entries are taken once, in their order, as they were pushed": lambda s: (
                s.taken == tuple(range(1, len(s.taken) + 1))
            ),
            "the ring holds no more than its capacity": lambda s: (
                0 <= s.words[HEAD] - s.words[TAIL] <= CAPACITY
            ),
        }

    def starts(self) -> Iterator[RingState]:
        yield RingState()

    def is_end(self, state: RingState) -> bool:
        return len(state.taken) == ENTRIES

    def steps(self, state: RingState) -> Iterator[tuple[str, RingState]]:
        for word, left, words in arrivals(state.pushing, state.words):
            yield f"the producer's store of word {word} arrives", state._replace(pushing=left, words=words)
        for word, left, words in arrivals(state.taking, state.words):
            yield f"the consumer's store of word {word} arrives", state._replace(taking=left, words=words)
        yield from self._producer(state)
        yield from self._consumer(state)

    def _producer(self, s: RingState) -> Iterator[tuple[str, RingState]]:
        head = seen(s.pushing, s.words, HEAD)
        if s.producer == "room":
            if head < ENTRIES and CAPACITY - (head - s.words[TAIL]) > 0:
                yield "ring_free: there is room", s._replace(producer="push")
        elif s.producer == "push":
            stores = (
                Store(FIRST_ENTRY + head % CAPACITY, head + 1),
                Store(HEAD, head + 1, release=not self.head_is_plain),
            )
            pushed = s._replace(pushing=s.pushing + stores)
            yield "ring_push, then wake", pushed._replace(producer="fence")
            yield "ring_push, more follows in this turn", pushed._replace(producer="more")
        elif s.producer == "more":
            if head < ENTRIES and CAPACITY - (head - s.words[TAIL]) > 0:
                yield "ring_free: there is room", s._replace(producer="push")
            yield "wake: the turn is over", s._replace(producer="fence")
        elif s.producer == "fence":
            if self.no_fence or not s.pushing:
                yield "wake: fence", s._replace(producer="flag")
        elif s.producer == "flag":
            yield "wake: load the flag", s._replace(producer="exchange" if s.words[SLEEPING] else "room")
        elif s.producer == "exchange":
            if not s.pushing:  # an exchange is a fence, too
                slept = s.words[SLEEPING] == 1
                words = put(s.words, SLEEPING, 0)
                yield (
                    "wake: exchange the flag",
                    s._replace(words=words, producer="write" if slept else "room"),
                )
        elif s.producer == "write":
            yield "wake: write the eventfd", s._replace(rung=True, producer="room")

    def _consumer(self, s: RingState) -> Iterator[tuple[str, RingState]]:
        tail = seen(s.taking, s.words, TAIL)
        ready = s.words[HEAD] > tail
        if s.consumer in ("look", "look again"):
            if ready:
                if s.consumer == "look again":
                    yield "Sleeper.awake: something has come", s._replace(consumer="awake")
                elif self.tail_first:
                    tails = (*s.taking, Store(TAIL, tail + 1, release=True))
                    yield "ring_take: store TAIL", s._replace(taking=tails, consumer="read")
                else:
                    yield "ring_take: an entry is there", s._replace(consumer="read")
            else:
                after = "block" if s.consumer == "look again" else "announce"
                yield "nothing is there", s._replace(consumer=after)
        elif s.consumer == "read":
            yield from self._take(s, tail)
        elif s.consumer == "announce":
            stores = (*s.taking, Store(SLEEPING, 1))
            yield "Sleeper.announce: store the flag", s._replace(taking=stores, consumer="fence")
        elif s.consumer == "fence":
            if not s.taking:
                after = "block" if self.one_look else "look again"
                yield "Sleeper.announce: fence", s._replace(consumer=after)
        elif s.consumer == "block":
            if s.rung:
                yield "epoll: the eventfd is written", s._replace(rung=False, consumer="awake")
        elif s.consumer == "awake" and not s.taking:
            yield (
                "Sleeper.awake: exchange the flag",
                s._replace(words=put(s.words, SLEEPING, 0), consumer="look"),
            )

    def _take(self, s: RingState, tail: int) -> Iterator[tuple[str, RingState]]:
        number = tail - 1 if self.tail_first else tail
        entry = s.words[FIRST_ENTRY + number % CAPACITY]
        taken = s._replace(taken=(*s.taken, entry), consumer="look")
        if not self.tail_first:
            taken = taken._replace(taking=(*s.taking, Store(TAIL, tail + 1, release=True)))
        yield "ring_take: read it, then store TAIL", taken

"""The sequence counter around the words of a partition slot (kbroker/ipc/layout.py, Slot).

The writer is an IO worker (`publish`, `publish_durable`, `write_group`), which may be killed within
a group; its successor writes its first group with `write_group`. The reader is `snapshot` in a
network process, or one that does as it does (`min_offset_of_members`, `Slots.group`,
`Following._leader`).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tests.models.store_buffer import Store, Stores, Words, arrivals, put, seen

SEQUENCE, LOG_END, POSITION = 0, 1, 2
GROUPS = 3
TRIES = 2
UNREAD = -1


class SlotGroupState(NamedTuple):
    """group: the last that was begun. writer: what it does next. before: the counter as the reader
    found it; got: the words that it has loaded; tries: how often it has begun; result: the words
    that it continues with."""

    words: Words = (0, 0, 0)
    stores: Stores = ()
    group: int = 0
    writer: str = "idle"
    killed: bool = False
    reader: str = "before"
    before: int = 0
    got: tuple[int, int] = (UNREAD, UNREAD)
    tries: int = 0
    result: tuple[int, int] | None = None


@dataclass(frozen=True)
class SlotGroupModel:
    """Each flag puts a bug in.

    writer_has_no_fence: words may arrive before the odd counter. odd_is_read: the reader takes an
    odd counter. reader_has_no_fence: the second look at the counter may come before the words.
    one_look: there is no second look. successor_adds_one: the successor of a killed writer makes
    the counter even where it should be odd.
    """

    writer_has_no_fence: bool = False
    odd_is_read: bool = False
    reader_has_no_fence: bool = False
    one_look: bool = False
    successor_adds_one: bool = False

    @property
    def promises(self) -> Mapping[str, Callable[[SlotGroupState], bool]]:
        return {"what is read is one group": lambda s: s.result is None or s.result[0] == s.result[1]}

    def starts(self) -> Iterator[SlotGroupState]:
        yield SlotGroupState()

    def is_end(self, s: SlotGroupState) -> bool:
        return s.group == GROUPS and s.writer == "idle" and s.reader in ("done", "gave up")

    def steps(self, s: SlotGroupState) -> Iterator[tuple[str, SlotGroupState]]:
        for word, left, words in arrivals(s.stores, s.words):
            yield f"the writer's store of word {word} arrives", s._replace(stores=left, words=words)
        yield from self._writer(s)
        yield from self._reader(s)

    def _writer(self, s: SlotGroupState) -> Iterator[tuple[str, SlotGroupState]]:
        counter = seen(s.stores, s.words, SEQUENCE)
        if s.writer == "idle":
            if s.group < GROUPS:
                odd = counter + 1 if self.successor_adds_one else counter | 1
                stores = (*s.stores, Store(SEQUENCE, odd, release=True))
                yield (
                    "publish: make the counter odd",
                    s._replace(stores=stores, group=s.group + 1, writer="fence"),
                )
        elif s.writer == "fence":
            if self.writer_has_no_fence or not s.stores:
                yield "publish: fence", s._replace(writer="words")
        elif s.writer == "words":
            stores = (*s.stores, Store(LOG_END, s.group), Store(POSITION, s.group))
            yield "publish: store the words", s._replace(stores=stores, writer="even")
        elif s.writer == "even":
            stores = (*s.stores, Store(SEQUENCE, counter + 1, release=True))
            yield "publish: make the counter even", s._replace(stores=stores, writer="idle")
        if s.writer != "idle" and s.group < GROUPS and not s.killed:
            for made in range(len(s.stores) + 1):  # what a core has stored arrives, whichever process dies
                words = s.words
                for store in s.stores[:made]:
                    words = put(words, store.word, store.value)
                left = s._replace(words=words, stores=(), writer="idle", killed=True)
                yield f"the writer is killed after {made} of its last stores", left

    def _reader(self, s: SlotGroupState) -> Iterator[tuple[str, SlotGroupState]]:
        if s.reader == "before":
            if s.tries == TRIES:
                yield "snapshot: give up", s._replace(reader="gave up")
                return
            before, begun = s.words[SEQUENCE], s.tries + 1
            if before % 2 and not self.odd_is_read:
                yield "snapshot: the counter is odd", s._replace(tries=begun)
            else:
                yield (
                    "snapshot: load the counter",
                    s._replace(before=before, tries=begun, reader="words", got=(UNREAD, UNREAD)),
                )
        elif s.reader == "words":
            for n in (0, 1):
                if s.got[n] == UNREAD:
                    value = s.words[LOG_END + n]
                    got = (value, s.got[1]) if n == 0 else (s.got[0], value)
                    yield f"snapshot: load word {LOG_END + n}", s._replace(got=got)
            if UNREAD not in s.got:
                yield from self._look_again(s, s.got)
            elif self.reader_has_no_fence and s.words[SEQUENCE] == s.before:
                yield "snapshot: the counter is the same, before the words", s._replace(reader="late words")
        elif s.reader == "late words":
            end, position = s.got
            if end == UNREAD:
                end = s.words[LOG_END]
            if position == UNREAD:
                position = s.words[POSITION]
            yield "snapshot: load the other words", s._replace(reader="done", result=(end, position))

    def _look_again(self, s: SlotGroupState, got: tuple[int, int]) -> Iterator[tuple[str, SlotGroupState]]:
        if self.one_look or s.words[SEQUENCE] == s.before:
            yield "snapshot: the counter is the same", s._replace(reader="done", result=got)
        else:
            yield "snapshot: the counter is another one", s._replace(reader="before")

"""Cached answers: control decides how long an answer may be repeated to clients that send the same
request.

Runs in: control, the only writer of the words; network processes read them in
`net/local_answers/cached_answer_kernel.py`. Control increments a word before it answers the request that
caused the change, so no client that knows of a change gets an older answer.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from kbroker.ipc.layout import AnswerSplit as SplitRow
from kbroker.ipc.layout import AnswerVersion, LogVersion, SplitPart, Term

_TERMS: Final = struct.Struct(f"<{Term.WORDS}q")
_SPLIT: Final = struct.Struct(f"<{SplitRow.WORDS}q")
_PART: Final = struct.Struct(f"<{SplitPart.WORDS}q")
_LOG: Final = struct.Struct(f"<{LogVersion.WORDS}q")
NO_LOGS: Final[Mapping[int, int]] = {}


class Part(NamedTuple):
    """The part of an answer about one topic. key: its name or id, by which requests name it. size:
    bytes in the frame."""

    key: bytes
    size: int
    codes: int
    partitions: int


class AnswerSplit(NamedTuple):
    """The split of an answer into parts by topic: other answers with the same options have the same
    parts.

    array, first: where the topics and the first of them are in the frame. room: maximum partitions
    of such an answer. codes: error codes outside of the parts.
    """

    array: int
    first: int
    room: int
    codes: int
    parts: Sequence[Part]

    def pack(self) -> bytes:
        """The bytes that follow the request's body."""
        end = self.first + sum(part.size for part in self.parts)
        found = [_SPLIT.pack(self.array, self.first, end, self.room, self.codes)]
        for key, *words in self.parts:
            found += _PART.pack(*words, len(key)), key, bytes(-len(key) & 7)
        return b"".join(found)


class CachedAnswer(bytes):
    """A whole framed answer with the terms under which it may be cached. codes: error codes in it,
    all of them NONE."""

    codes: int
    terms: bytes
    topic_split: AnswerSplit | None


class AnswerVersions:
    """Control's view of the words. Owner: the Broker."""

    def __init__(self, words: NDArray[np.int64]) -> None:
        self.words = words

    @property
    def topics(self) -> int:
        """Grows whenever an answer that was computed from topics, settings, quotas, credentials or
        places of logs may be outdated."""
        return self.words.item(AnswerVersion.TOPICS)

    def topics_changed(self) -> None:
        """Topics, settings, quotas, credentials or places of logs have changed: invalidate all
        cached answers."""
        self.words[AnswerVersion.TOPICS] += 1

    def group_changed(self, group_id: str) -> None:
        """Something happened to the group or its offsets."""
        self.words[word_of(group_id)] += 1

    def groups_changed(self) -> None:
        """As `group_changed`, for all of them."""
        self.words[AnswerVersion.KEYED :] += 1

    def transaction_changed(self, transactional_id: str) -> None:
        """The id's state has changed."""
        self.words[AnswerVersion.TRANSACTIONS] += 1
        self.words[word_of(transactional_id)] += 1

    def answer(
        self,
        frame: bytes,
        body: bytes,
        codes: int,
        word: int = AnswerVersion.TOPICS,
        *,
        split: AnswerSplit | None = None,
        logs: Mapping[int, int] = NO_LOGS,
    ) -> CachedAnswer:
        """The answer just built for a request with this body. word: of the other state that it
        depends on. logs: Slot.SEQUENCE by slot; only without a split."""
        values = int(self.words[AnswerVersion.TOPICS]), word, int(self.words[word])
        found = CachedAnswer(frame)
        found.codes = codes
        found.topic_split = split
        parts = len(split.parts) if split else 0
        rest = split.pack() if split else b"".join(_LOG.pack(*each) for each in logs.items())
        found.terms = _TERMS.pack(*values, len(logs), codes, len(body), parts) + body
        if rest:
            found.terms += bytes(-len(body) & 7) + rest
        return found


def word_of(key: str) -> int:
    """Number of the word that a group or a transactional id shares with others of its hash."""
    return AnswerVersion.KEYED + crc32(key.encode()) % (AnswerVersion.WORDS - AnswerVersion.KEYED)

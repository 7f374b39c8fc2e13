"""A linearizability checker for small histories: the search of Wing and Gong with Lowe's memory of
what was tried, as in Porcupine, and its partitioning by key. Plain Python, slow, and the
definition: the oracle of the judge's fast check.
"""

from collections.abc import Sequence
from typing import NamedTuple

NEVER = 1 << 60


class Append(NamedTuple):
    """A record that is sent. done NEVER: no answer came; then offset says nothing, and the record
    may be in the log or not."""

    begun: int
    done: int
    value: int
    key: int = 0
    offset: int | None = None  # acknowledged

    def next_length(self, log: Sequence[int], length: int) -> int | None:
        """The log's length after it takes effect now; None: it cannot."""
        fits = length < len(log) and log[length] == self.value
        return length + 1 if fits and self.offset in (None, length) else None


class Read(NamedTuple):
    """A read that saw all records below `end`, and no other."""

    begun: int
    done: int
    end: int

    def next_length(self, log: Sequence[int], length: int) -> int | None:
        return length if length == self.end else None


class Delivery(NamedTuple):
    """A record in a reader's hands: the log was longer than its offset at some time before."""

    done: int
    offset: int
    begun: int = -NEVER

    def next_length(self, log: Sequence[int], length: int) -> int | None:
        return length if length > self.offset else None


Operation = Append | Read | Delivery


def linearizable(log: Sequence[int], history: Sequence[Operation]) -> bool:
    """Whether an order of the operations exists that keeps real time, in which each has the answer
    that it had, and whose log is this one. One without an answer may be left out."""
    tried: set[tuple[int, int]] = set()
    stack = [(0, 0)]  # operations that have taken effect, a bit each, and the log's length
    answered = sum(1 << n for n, operation in enumerate(history) if operation.done < NEVER)
    while stack:
        taken, length = stack.pop()
        if taken & answered == answered and length == len(log):
            return True
        if (taken, length) in tried:
            continue
        tried.add((taken, length))
        left = [n for n in range(len(history)) if not taken >> n & 1]
        first_done = min((history[n].done for n in left), default=NEVER)
        for n in left:
            after = history[n].next_length(log, length)
            if history[n].begun <= first_done and after is not None:
                stack.append((taken | 1 << n, after))
    return False


def by_key(log: Sequence[int], keys: Sequence[int], history: Sequence[Operation]) -> dict[int, bool]:
    """The same of each key's records alone. keys: of the log's records."""
    found = {}
    for key in sorted({*keys}):
        below = [sum(1 for other in keys[:offset] if other == key) for offset in range(len(log) + 1)]
        part = [value for value, other in zip(log, keys, strict=True) if other == key]
        found[key] = linearizable(
            part, [one for one in (_of_key(op, key, keys, below) for op in history) if one]
        )
    return found


def _of_key(operation: Operation, key: int, keys: Sequence[int], below: Sequence[int]) -> Operation | None:
    """An operation as one key's history has it; None: it is not part of that."""
    if isinstance(operation, Read):
        return operation._replace(end=below[operation.end])
    if isinstance(operation, Delivery):
        own = keys[operation.offset] == key
        return operation._replace(offset=below[operation.offset]) if own else None
    if operation.key != key:
        return None
    return operation._replace(offset=None if operation.offset is None else below[operation.offset])

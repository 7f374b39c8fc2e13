"""Space in control's arena for pending batches."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

ALIGN = 64
"""A batch in the arena begins at a multiple of so many bytes."""


@dataclass(slots=True, eq=False)
class Space:
    """Bytes [start, end) of the arena; reusable once it and everything before it are freed."""

    start: int
    end: int
    free: bool = False


class ArenaQueue:
    """Allocated in order, freed in any order.

    Runs in: control. Owner: the Appender.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._taken: deque[Space] = deque()
        self._aside: set[Space] = set()
        self._blocks: list[tuple[int, int]] | None = []
        """The bytes set aside, in order and joined; None: to be listed again."""

    def check(self, length: int) -> None:
        """Raises ValueError for more bytes than the whole arena has."""
        if length > self._size:
            raise ValueError(f"{length} bytes do not fit into an arena of {self._size}")

    def take(self, length: int) -> Space | None:
        """Contiguous bytes, None when there is no room now. ValueError for more than the whole
        arena."""
        self.check(length)
        length = -(-length // ALIGN) * ALIGN
        if not self._taken:
            start = self._fit(0, self._size, length)
        else:
            first, last = self._taken[0], self._taken[-1]
            if last.end > first.start:  # the free part is after the last and before the first
                start = self._fit(last.end, self._size, length)
                if start < 0:
                    start = self._fit(0, first.start - 1, length)
            else:
                start = self._fit(last.end, first.start - 1, length)
        if start < 0:
            return None
        space = Space(start, start + length)
        self._taken.append(space)
        return space

    def _fit(self, start: int, end: int, length: int) -> int:
        """The first place between start and end for so many bytes, none of them set aside; -1
        without one."""
        if self._blocks is None:
            self._blocks = _joined(self._aside)
        for begin, after in self._blocks:
            if start < after and begin < start + length:
                start = after
        return start if start + length <= end else -1

    def set_aside(self, spaces: Iterable[Space]) -> None:
        """Let the spaces after these be reused before these are freed, which may take hours."""
        if new := set(spaces) - self._aside:
            self._taken = deque(space for space in self._taken if space not in new)
            self._aside |= new
            self._blocks = None
            self._drop_free()

    def give(self, space: Space) -> None:
        """Free a space."""
        space.free = True
        if space in self._aside:
            self._aside.remove(space)
            self._blocks = None
        self._drop_free()

    def _drop_free(self) -> None:
        while self._taken and self._taken[0].free:
            self._taken.popleft()

    def __len__(self) -> int:
        return len(self._taken) + len(self._aside)


def _joined(spaces: Iterable[Space]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for space in sorted(spaces, key=lambda each: each.start):
        if found and found[-1][1] == space.start:
            found[-1] = found[-1][0], space.end
        else:
            found.append((space.start, space.end))
    return found

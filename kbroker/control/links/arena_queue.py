"""Space in control's arena for pending batches: allocated in order, freed in any order. Pure."""

from collections import deque
from dataclasses import dataclass

ALIGN = 64


@dataclass(slots=True, eq=False)
class Space:
    """Bytes [start, end) of the arena; reusable once it and everything before it are freed."""

    start: int
    end: int
    free: bool = False


class ArenaQueue:
    """A circular queue of spaces. Runs in: control. Owner: the Appender."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._taken: deque[Space] = deque()

    def take(self, length: int) -> Space | None:
        """Contiguous bytes, None when there is no room now. ValueError for more than the whole
        arena."""
        if length > self._size:
            raise ValueError(f"{length} bytes do not fit into an arena of {self._size}")
        length = -(-length // ALIGN) * ALIGN
        if not self._taken:
            start = 0
        else:
            first, last = self._taken[0], self._taken[-1]
            start = last.end
            if last.end > first.start:  # the free part is after the last and before the first
                if start + length > self._size:
                    start = 0
                    if length >= first.start:
                        return None
            elif start + length >= first.start:
                return None
        if start + length > self._size:
            return None
        space = Space(start, start + length)
        self._taken.append(space)
        return space

    def give(self, space: Space) -> None:
        """Free a space."""
        space.free = True
        while self._taken and self._taken[0].free:
            self._taken.popleft()

    def __len__(self) -> int:
        return len(self._taken)

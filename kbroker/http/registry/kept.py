"""Values that are made of schemas and kept, up to a number of characters: what is made of a schema
takes many times its bytes."""

import threading
from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

MAX_CHARACTERS = 8 << 20
"""Of the schemas whose values are kept. The worst ones take 25 bytes a character."""


class Kept(Generic[K, V]):
    """Forgets the values first that were not used for the longest time. Runs in: http;
    thread-safe."""

    def __init__(self, max_characters: int = MAX_CHARACTERS) -> None:
        self._max_characters = max_characters
        self._lock = threading.Lock()
        self._values: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._characters = 0

    def get(self, key: K) -> V | None:
        with self._lock:
            found = self._values.get(key)
            if found is None:
                return None
            self._values.move_to_end(key)
            return found[0]

    def put(self, key: K, value: V, characters: int) -> None:
        """Keep a value of schemas of so many characters."""
        with self._lock:
            before = self._values.pop(key, None)
            self._values[key] = value, characters
            self._characters += characters - (0 if before is None else before[1])
            while self._characters > self._max_characters:
                _, (_, freed) = self._values.popitem(last=False)
                self._characters -= freed

    def __len__(self) -> int:
        return len(self._values)

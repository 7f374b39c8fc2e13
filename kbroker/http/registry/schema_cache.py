"""A cache of values that are computed from schemas, such as parsed schemas. Its size is counted in
characters of the schemas: a value takes many times the bytes of its schema."""

import threading
from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

MAX_CHARACTERS = 8 << 20
"""Maximum for the schemas of all cached values. The worst values take 25 bytes a character."""
OVERHEAD = 500
"""Characters that each schema counts for, besides its own."""


class SchemaCache(Generic[K, V]):
    """Drops the least recently used values first. Runs in: http; thread-safe."""

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
        """Cache a value. characters: of its schema, references included."""
        characters += OVERHEAD
        with self._lock:
            before = self._values.pop(key, None)
            self._values[key] = value, characters
            self._characters += characters - (0 if before is None else before[1])
            while self._characters > self._max_characters:
                _, (_, freed) = self._values.popitem(last=False)
                self._characters -= freed

    def __len__(self) -> int:
        return len(self._values)

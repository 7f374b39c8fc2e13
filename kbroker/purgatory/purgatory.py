"""Operations that wait for an event of one of their keys (Kafka's
DelayedOperationPurgatory).

An operation completes exactly once. Nothing polls: code that changes a key calls
`check_and_complete` with it; the loop that owns the purgatory sleeps until `next_expiry_ms` and
calls `expire`.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

from kbroker.purgatory.delayed_operation import DelayedOperation
from kbroker.purgatory.timing_wheel import TimingWheel

Key = TypeVar("Key", bound=Hashable)

PURGE_INTERVAL = 1000
"""Completed operations that stay in watch lists before the lists are swept
(fetch.purgatory.purge.interval.requests).
"""

SWEPT_AT_ONCE = 256
"""Lists that are swept with each completed operation, until all are swept. All at once would stop
the loop if there are very many keys.
"""


class Purgatory(Generic[Key]):
    """Delayed operations by key. Runs in: network, io, control; owned by one loop. Not thread-safe.

    announce(key): called for each key after the operation is registered and before the second
    check; the owner informs other processes there (by a waiter bit in the partition slot).
    """

    __slots__ = ("_announce", "_done_since_purge", "_lists", "_purge_interval", "_unswept", "_wheel")

    def __init__(
        self,
        now_ms: int,
        purge_interval: int = PURGE_INTERVAL,
        announce: Callable[[Key], None] | None = None,
    ) -> None:
        self._wheel = TimingWheel(now_ms)
        self._lists: dict[Key, list[DelayedOperation]] = {}
        self._purge_interval = purge_interval
        self._announce = announce
        self._done_since_purge = 0
        self._unswept: list[Key] = []

    @property
    def delayed(self) -> int:
        """Operations that wait (Kafka's NumDelayedOperations)."""
        return len(self._wheel)

    @property
    def watched(self) -> int:
        """Entries in all watch lists, completed ones not yet swept included (Kafka's
        PurgatorySize)."""
        return sum(map(len, self._lists.values()))

    def watch(self, operation: DelayedOperation, keys: Iterable[Key]) -> bool:
        """Register under every key, then check again: a change in between has woken no waiter.
        True: completed.

        For callers that have just checked the condition. An operation without keys only expires or
        is forced.
        """
        self._register(operation, keys)
        if operation.can_complete():
            return self.complete(operation)
        self._wheel.add(operation)
        return False

    def watch_each(self, operation: DelayedOperation, keys: Iterable[Key]) -> bool:
        """As `watch`, with a check of each key right after it is registered. True: completed.

        The caller's iterable may let other tasks run between two keys: a key that changes after its
        check is checked again, because it is watched by then. Such a change may complete the
        operation, and its client may disconnect, before all keys are registered.
        """
        for key in keys:
            if operation.completed:
                return True
            self._register(operation, (key,))
            if operation.can_complete_after(key):
                return self.complete(operation)
        if operation.completed:
            return True
        if operation.can_complete():
            return self.complete(operation)
        self._wheel.add(operation)
        return False

    def _register(self, operation: DelayedOperation, keys: Iterable[Key]) -> None:
        lists = self._lists
        announce = self._announce
        for key in keys:
            waiting = lists.get(key)
            if waiting is None:
                lists[key] = [operation]
            else:
                waiting.append(operation)
            if announce is not None:
                announce(key)

    def waits_for(self, key: Key) -> bool:
        """Whether an operation watches the key. It may already be completed through another key."""
        return key in self._lists

    def check_and_complete(self, key: Key) -> int:
        """Complete the operations that wait for `key` and can be completed now; returns their
        number."""
        # The list is taken out so that operations completed here may watch the same key again.
        waiting = self._lists.pop(key, None)
        if waiting is None:
            return 0
        count = 0
        kept = []
        for operation in waiting:
            if operation.completed:
                continue
            if operation.can_complete_after(key):
                count += self.complete(operation)
            else:
                kept.append(operation)
        if kept:
            newer = self._lists.get(key)
            self._lists[key] = kept if newer is None else kept + newer
        return count

    def complete(self, operation: DelayedOperation) -> bool:
        """Complete it even if its condition does not hold. False: it was completed before."""
        if operation.completed:
            return False
        operation.completed = True
        self._wheel.cancel(operation)
        self._swept_later()
        operation.on_complete(False)
        return True

    def cancel(self, operation: DelayedOperation) -> bool:
        """Drop the operation without completing it: its client is gone.

        False: completed before.
        """
        if operation.completed:
            return False
        operation.completed = True
        self._wheel.cancel(operation)
        self._swept_later()
        return True

    def next_expiry_ms(self) -> int | None:
        """The loop need not call `expire` before this time; None when nothing waits."""
        return self._wheel.next_expiry_ms()

    def expire(self, now_ms: int) -> int:
        """Complete the operations that expire by `now_ms`, earliest first; returns their number.
        If one fails, the later ones expire in the next call."""
        count = 0
        expired = iter(self._wheel.advance(now_ms))
        try:
            for operation in expired:
                assert isinstance(operation, DelayedOperation)
                if operation.completed:  # by an operation that expired just before it
                    continue
                operation.completed = True
                self._swept_later()
                operation.on_complete(True)
                count += 1
        finally:
            for operation in expired:
                assert isinstance(operation, DelayedOperation)
                if not operation.completed:
                    self._wheel.add(operation)
        return count

    def sweep(self, keys: Iterable[Key]) -> None:
        """Drop completed operations from the watch lists of these keys, and lists that become
        empty."""
        for key in keys:
            self._sweep(key)

    def _sweep(self, key: Key) -> None:
        waiting = self._lists.get(key)
        if waiting is None:
            return
        kept = [each for each in waiting if not each.completed]
        if not kept:
            del self._lists[key]
        elif len(kept) < len(waiting):
            self._lists[key] = kept

    def _swept_later(self) -> None:
        self._done_since_purge += 1
        if self._done_since_purge > self._purge_interval and not self._unswept:
            self._done_since_purge = 0
            self._unswept = list(self._lists)
        if self._unswept:
            self.sweep(self._unswept[-SWEPT_AT_ONCE:])
            del self._unswept[-SWEPT_AT_ONCE:]

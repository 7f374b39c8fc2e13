"""Turns of requests that have much work: one piece of each, then the next piece of each."""

from collections import OrderedDict, deque
from typing import Generic, TypeVar

K = TypeVar("K")
T = TypeVar("T")


class Turns(Generic[K, T]):
    """Pending work by request. Not thread-safe. Runs in: control, network. Owner: its creator."""

    def __init__(self) -> None:
        # of a dict, each take would pass the places of all earlier ones
        self._requests: OrderedDict[K, deque[T]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._requests)

    def put(self, request: K, work: T) -> None:
        """Add work at the end of its request's."""
        self._requests.setdefault(request, deque()).append(work)

    def take(self) -> tuple[K, T]:
        """The request whose turn it is, and its next work. Raises KeyError when nothing is
        pending."""
        request, pending = self._requests.popitem(last=False)
        work = pending.popleft()
        if pending:
            self._requests[request] = pending  # at the end
        return request, work

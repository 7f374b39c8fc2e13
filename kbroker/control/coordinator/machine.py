"""The contract of a coordinator: a pure machine over one internal topic, run by `runtime.py`.

A machine decides in functions of (state, request, now_ms) and never waits, writes or reads a clock.
It returns its changes as records; its durable state changes only in `replay`, which sees every
record again after a restart. Kafka's CoordinatorShard and CoordinatorRuntime split the work the
same way.
"""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct, field

from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest


class Record(Struct, frozen=True):
    """One record of an internal topic. value None is a tombstone."""

    key: bytes
    value: bytes | None


class Deferred:
    """An answer that comes later (a JoinGroup that waits for members). Completed once; later calls
    do nothing. An exception as the answer: the operation failed."""

    __slots__ = ("_callback", "_response", "done")

    def __init__(self) -> None:
        self.done = False
        self._response: Any = None
        self._callback: Callable[[Any], object] | None = None

    def complete(self, response: Any) -> bool:
        """Complete with the answer; False when it was completed before."""
        if self.done:
            return False
        self.done, self._response = True, response
        if self._callback is not None:
            self._callback(response)
        return True

    def follow(self, response: Any) -> None:
        """Complete with the response, or once the response, a Deferred, is complete."""
        if isinstance(response, Deferred):
            response.on_complete(self.complete)
        else:
            self.complete(response)

    @property
    def value(self) -> Any:
        """The answer; None while there is none."""
        return self._response

    def on_complete(self, callback: Callable[[Any], object]) -> None:
        """Called with the answer, at once when it is there already. One callback only (the
        runtime's)."""
        self._callback = callback
        if self.done:
            callback(self._response)


class Outcome(Struct):
    """The outcome of one operation.

    records: appended as one batch to the key's partition, all or none; each is replayed after the
    append. response: anything the caller understands, or a Deferred; sent when the records are in
    the log. then: called once, after the replay with ErrorCode.NONE, or instead of it with the
    append's error (as `coordinator_error` maps it; a FollowingMachine may have replayed them).
    Deferreds are completed here. Without `then` an append error is raised to the caller as
    KafkaError. apply: called with the partition instead of the replay, when the operation knows the
    effect of its records.
    """

    records: list[Record] = field(default_factory=list)
    response: Any = None
    then: Callable[[ErrorCode], None] | None = None
    apply: Callable[[int], None] | None = None


Operation = Callable[[int], Outcome]
"""Takes now_ms (wall clock)."""


class Timers(Protocol):
    """Timers of a machine, by name: scheduling a name again replaces it."""

    def schedule(self, name: str, delay_ms: int, key: str, operation: Operation) -> None:
        """Run the operation after delay_ms, in turn with the key's other operations."""

    def schedule_if_absent(self, name: str, delay_ms: int, key: str, operation: Operation) -> None:
        """Like `schedule`, but a running timer is not changed."""

    def renew(self, name: str, delay_ms: int) -> bool:
        """As `schedule` with the timer's own operation; False when it must be scheduled."""

    def cancel(self, name: str) -> None:
        """Forget a timer; nothing when there is none."""


class Machine(Protocol):
    """A coordinator. Runs in: control. Owner: its Runtime; only it calls it."""

    topic: str
    """The internal topic that holds its records."""

    def replay(self, partition: int, key: bytes, value: bytes | None, timestamp_ms: int) -> None:
        """Apply one record: after its append, and for every record of the log at start, in offset
        order."""

    def loaded(self, partition: int, now_ms: int) -> None:
        """Every record of the partition has been replayed: start the timers of the loaded state."""

    def unloaded(self, partition: int) -> None:
        """Drop the state of the partition: it has been deleted."""


@runtime_checkable
class LastValueMachine(Protocol):
    """A machine that needs only the last value of some keys at start.

    last_value_types: the types of records of which the last valid one with a key has the effect of
    all of them, if there is between them no tombstone of their group, no record of another type of
    their group, and none of their group in a transaction. The group is the first text of the key.
    `replay` must raise ProtocolError before it changes anything.
    """

    last_value_types: frozenset[int]


@runtime_checkable
class FollowingMachine(Protocol):
    """A machine whose records are changes of a state, such as the members of a group one by one.

    replays_timed_out: records are also replayed if their append failed but they are in the log, as
    in Kafka. Else the next changes, decided for the state without them, would not fit the log.
    """

    replays_timed_out: bool


@runtime_checkable
class TransactionalMachine(Protocol):
    """A machine whose topic may hold clients' transactions (offsets committed in a transaction)."""

    def replay_in_transaction(
        self, partition: int, producer_id: int, key: bytes, value: bytes | None
    ) -> None:
        """Apply one record of a transactional batch: pending until its transaction ends."""

    def replay_end_of_transaction(self, partition: int, producer_id: int, commit: bool) -> None:
        """Apply a transaction marker to what the partition holds of the producer's transaction."""


class Coordinator(Protocol):
    """A machine that runs, as the APIs see it: `runtime.Runtime`."""

    topic: str

    def partition_for(self, key: str) -> int:
        """Partition of the internal topic that holds the key's records."""

    @property
    def is_ready(self) -> bool:
        """Whether the topic exists and is loaded: ``ready`` has nothing to do."""

    async def ready(self) -> None:
        """Create the internal topic if it does not exist. Raises KafkaError when that fails."""


class Transactions(Protocol):
    """The transaction coordinator, as InitProducerId sees it."""

    def init_producer_id(self, request: InitProducerIdRequest) -> Any:
        """Begin or continue with a transactional id: an InitProducerIdResponse, which may carry an
        error, or a Deferred of it or of a KafkaError. Raises KafkaError."""


class FastPath(Protocol):
    """A fast path: operations that are decided without the machine, as long as no other operation
    changes their key (`groups/commit_cache/cache.py`)."""

    def forget(self, key: str) -> None:
        """Another operation of the key begins: decide nothing more for it."""

    def forget_all(self) -> None:
        """Forget the fast path's state of every key."""

    def in_flight(self, key: str) -> bool:
        """Whether records of the key are being written."""

    def when_idle(self, key: str, then: Callable[[], None]) -> None:
        """Call once when they have been written."""

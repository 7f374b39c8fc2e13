"""All transactional ids of this broker, and those with a pending change."""

from collections.abc import Callable, Iterator
from itertools import chain

from kbroker.control.coordinator.machine import Deferred, Outcome
from kbroker.control.transactions.metadata import TransactionMetadata
from kbroker.control.transactions.ports import Markers, View
from kbroker.control.transactions.settings import TransactionSettings
from kbroker.control.transactions.state import TransactionState
from kbroker.control.transactions.transaction_records import state_record
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.slices import Parts

Answer = Callable[[ErrorCode], object]
"""The response, given the outcome of the append."""


class TransactionTable:
    """Runs in: control. Owner: the TransactionShard. Not thread-safe. There may be a million ids:
    small dicts hold them, because a large one delays all clients each time it is resized."""

    def __init__(self, settings: TransactionSettings, markers: Markers, view: View) -> None:
        self.settings = settings
        self.markers = markers
        self.view = view
        self._known: Parts[dict[str, TransactionMetadata]] = Parts(dict[str, TransactionMetadata])
        self._ongoing: dict[str, None] = {}
        self._changing: set[str] = set()
        self.on_change: Callable[[str], None] = lambda _: None
        """Called with every transactional id whose state has changed."""
        self.on_stored: Callable[[int, str], None] = lambda *_: None
        """Called with the log's partition and the transactional id after each change is in the
        log."""

    def get(self, transactional_id: str) -> TransactionMetadata | None:
        """The state of an id in the log."""
        return self._known.of(transactional_id).get(transactional_id)

    def put(self, metadata: TransactionMetadata) -> None:
        """Apply a record."""
        transactional_id = metadata.transactional_id
        self._known.of(transactional_id)[transactional_id] = metadata
        if metadata.state is TransactionState.ONGOING:
            self._ongoing[transactional_id] = None
        else:
            self._ongoing.pop(transactional_id, None)
        self.on_change(transactional_id)

    def drop(self, transactional_id: str) -> None:
        """The id is unknown from now on."""
        self._known.of(transactional_id).pop(transactional_id, None)
        self._ongoing.pop(transactional_id, None)
        self._changing.discard(transactional_id)
        self.on_change(transactional_id)

    def all(self) -> Iterator[TransactionMetadata]:
        """Every id; the table may change meanwhile."""
        return chain.from_iterable(tuple(part.values()) for part in self._known.all)

    def ids(self) -> tuple[str, ...]:
        """Every id, as of now."""
        return tuple(chain.from_iterable(self._known.all))

    def ongoing(self) -> Iterator[TransactionMetadata]:
        """The ids with an open transaction. The table may change meanwhile: one that has ended is
        left out. Only the ids are copied at once, so that a caller may pause between any two."""
        return (self._known.of(each)[each] for each in tuple(self._ongoing) if each in self._ongoing)

    @property
    def count(self) -> int:
        """Number of ids."""
        return sum(map(len, self._known.all))

    def is_changing(self, transactional_id: str) -> bool:
        """Whether a record of the id is on its way to the log."""
        return transactional_id in self._changing

    def required(self, transactional_id: str, producer_id: int) -> TransactionMetadata:
        """The id's state for a producer that claims it. INVALID_PRODUCER_ID_MAPPING,
        CONCURRENT_TRANSACTIONS."""
        known = self.get(transactional_id)
        if known is None:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if transactional_id in self._changing:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        if known.producer_id != producer_id:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return known

    def change(
        self, target: TransactionMetadata, answer: Answer, then: Callable[[], None] | None = None
    ) -> Outcome:
        """Outcome that stores the target. answer: makes the response once the append has ended,
        which is a Deferred until then; `then` runs after a successful one. Until the end others get
        CONCURRENT_TRANSACTIONS."""
        transactional_id = target.transactional_id
        response = Deferred()
        self._changing.add(transactional_id)

        def appended(code: ErrorCode) -> None:
            self._changing.discard(transactional_id)
            if code is ErrorCode.NONE:
                self.put(target)  # the record lacks last_producer_epoch
                if then is not None:
                    then()
            response.complete(answer(code))

        record = state_record(target, self.view.transaction_version())
        return Outcome(
            [record], response, appended, lambda partition: self.on_stored(partition, transactional_id)
        )

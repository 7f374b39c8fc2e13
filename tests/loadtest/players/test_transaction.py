"""The row of a transaction: it names no outcome that its producer does not know."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from loadtest.history import TransactionOutcome
from loadtest.page import Slot
from loadtest.players.life import Fatal
from loadtest.players.transaction import Transaction, insist

COMMITTED, ABORTED, UNKNOWN = TransactionOutcome


def failure(code: int, retriable: bool = False, fatal: bool = False) -> KafkaException:
    return KafkaException(KafkaError(code, "why", retriable=retriable, fatal=fatal))


LOST = failure(KafkaError._TRANSPORT, retriable=True)
REFUSED = failure(KafkaError.INVALID_TXN_STATE)
FENCED = failure(KafkaError.PRODUCER_FENCED, fatal=True)


class Life:
    """A producer's life whose calls fail as listed, one failure a call; `calls` names them, `rows`
    are those of its history, `counted` the words of its page."""

    def __init__(self, **failures: list[KafkaException]) -> None:
        self.failures = failures
        self.calls: list[str] = []
        self.rows: list[dict[str, Any]] = []
        self.counted: dict[Slot, int] = {}
        self.now_ns = 0
        self.number, self.transactions = 5, 3
        self.values = SimpleNamespace(next_seq=40)
        names = ("begin_transaction", "commit_transaction", "abort_transaction")
        self.producer = SimpleNamespace(**{name: self._call(name.split("_")[0]) for name in names})
        self.outbox = SimpleNamespace(settle=lambda: 0)
        self.history = SimpleNamespace(add=lambda kind, row: self.rows.append({"kind": kind, **row}))
        self.player = SimpleNamespace(
            clock=SimpleNamespace(now_ns=self._tick),
            look_around=lambda: None,
            page=SimpleNamespace(add=self._count),
        )

    def _tick(self) -> int:
        self.now_ns += 1
        return self.now_ns

    def _count(self, slot: Slot, more: int) -> None:
        self.counted[slot] = self.counted.get(slot, 0) + more

    def _call(self, name: str) -> Callable[..., None]:
        def call(*_: object) -> None:
            self.calls.append(name)
            if pending := self.failures.get(name):
                raise pending.pop(0)

        return call

    def work(self) -> None:
        self.calls.append("work")
        if pending := self.failures.get("work"):
            raise pending.pop(0)
        self.values.next_seq += 10


def ended(life: Life, meant: TransactionOutcome = COMMITTED) -> TransactionOutcome:
    """The outcome that the row has, which is also the outcome that `run` gives."""
    scene: Any = life
    transaction = Transaction(scene, meant)
    found = transaction.run(life.work)
    (row,) = life.rows
    assert row["outcome"] == found == transaction.outcome
    assert life.counted == {
        Slot.COMMITTED: found is COMMITTED,
        Slot.ABORTED: found is ABORTED,
    }
    return found


@pytest.fixture(autouse=True)
def no_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)


def test_a_commit_has_the_numbers_of_its_records_and_its_times() -> None:
    life = Life()
    assert ended(life) is COMMITTED
    assert life.calls == ["begin", "work", "commit"]
    assert life.rows == [
        {
            "kind": "transactions",
            "producer": [5],
            "transaction": 3,
            "first_seq": 40,
            "last_seq": 49,
            "outcome": 0,
            "meant": 0,
            "error": 0,
            "begin_ns": 1,
            "ending_ns": 2,
            "end_ns": 3,
        }
    ]
    assert life.transactions == 4


def test_an_abort_that_is_meant_is_not_committed() -> None:
    life = Life()
    assert ended(life, ABORTED) is ABORTED
    assert life.calls == ["begin", "work", "abort"]
    assert (life.rows[0]["meant"], life.rows[0]["error"]) == (1, 0)


def test_a_commit_is_repeated_while_its_answer_is_lost() -> None:
    life = Life(commit=[LOST, LOST])
    assert ended(life) is COMMITTED
    assert life.calls == ["begin", "work", "commit", "commit", "commit"]


def test_a_refused_commit_is_aborted_with_the_error_of_the_commit() -> None:
    life = Life(commit=[REFUSED])
    assert ended(life) is ABORTED
    assert life.calls == ["begin", "work", "commit", "abort"]
    assert (life.rows[0]["error"], life.rows[0]["ending_ns"]) == (KafkaError.INVALID_TXN_STATE, 2)


def test_a_commit_whose_abort_fails_too_may_have_happened() -> None:
    life = Life(commit=[REFUSED], abort=[failure(KafkaError.INVALID_PRODUCER_EPOCH)])
    with pytest.raises(Fatal):
        ended(life)
    assert (life.rows[0]["outcome"], life.rows[0]["error"]) == (UNKNOWN, KafkaError.INVALID_PRODUCER_EPOCH)
    assert not any(life.counted.values())


def test_a_fatal_error_of_a_commit_leaves_its_outcome_unknown() -> None:
    life = Life(commit=[FENCED])
    with pytest.raises(Fatal):
        ended(life)
    assert life.calls == ["begin", "work", "commit"]
    assert life.rows[0]["outcome"] == UNKNOWN


@pytest.mark.parametrize("meant", [COMMITTED, ABORTED])
def test_work_that_fails_is_aborted(meant: TransactionOutcome) -> None:
    life = Life(work=[REFUSED])
    assert ended(life, meant) is ABORTED
    assert life.calls == ["begin", "work", "abort"]
    row = life.rows[0]
    assert (row["last_seq"], row["meant"], row["begin_ns"], row["ending_ns"]) == (39, meant, 1, 2)


def test_a_fatal_error_before_the_commit_was_requested_is_an_abort() -> None:
    """No commit was requested, so read_committed must never show its records."""
    life = Life(work=[FENCED])
    with pytest.raises(Fatal):
        ended(life)
    assert life.calls == ["begin", "work"]
    assert life.rows[0]["outcome"] == ABORTED
    assert life.rows[0]["ending_ns"] >= life.rows[0]["begin_ns"]


def test_a_transaction_that_does_not_begin_has_a_row_without_records() -> None:
    life = Life(begin=[REFUSED])
    with pytest.raises(Fatal):
        ended(life)
    assert (life.calls, life.rows[0]["last_seq"], life.rows[0]["outcome"]) == (["begin"], 39, ABORTED)


def test_a_call_is_repeated_for_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    life: Any = Life()
    now_s = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now_s[0])
    calls: list[float] = []

    def call() -> None:
        calls.append(now_s[0])
        now_s[0] += 25.0
        raise LOST

    with pytest.raises(KafkaException):
        insist(life, call)
    assert calls == [100.0, 125.0, 150.0]


def test_an_error_that_repeating_does_not_mend_is_raised_at_once() -> None:
    life: Any = Life()
    calls: list[int] = []

    def call() -> None:
        calls.append(1)
        raise REFUSED

    with pytest.raises(KafkaException):
        insist(life, call)
    assert calls == [1]

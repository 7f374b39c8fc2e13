"""One transaction of a producer: begins, works and ends it as intended if possible, and records its
outcome."""

import time
from collections.abc import Callable

from confluent_kafka import KafkaException

from loadtest.history import TransactionOutcome
from loadtest.page import Slot
from loadtest.players.failures import error_of
from loadtest.players.life import Fatal, ProducerLife

CALL_S = 10.0
PATIENCE_S = 60.0


def begin_transactions(life: ProducerLife) -> None:
    """init_transactions, again while the broker is away. Raises Fatal, KafkaException."""
    insist(life, lambda: life.producer.init_transactions(CALL_S))


def insist(life: ProducerLife, call: Callable[[], object]) -> None:
    """Repeats a call of the transactional API while its error is retriable, for PATIENCE_S."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            call()
            return
        except KafkaException as failure:
            life.outbox.settle()
            life.player.look_around()
            if not error_of(failure).retriable() or time.monotonic() > until:
                raise
            time.sleep(0.05)


class Transaction:
    """Owner: a transactional player, for one `run`."""

    def __init__(self, life: ProducerLife, meant: TransactionOutcome) -> None:
        self._life = life
        self._meant = meant
        self.number = life.transactions
        life.transactions += 1
        self._first_seq = life.values.next_seq
        self._begin_ns = life.player.clock.now_ns()
        self._ending_ns = 0
        self.outcome = TransactionOutcome.ABORTED

    def run(self, work: Callable[[], None]) -> TransactionOutcome:
        """Returns the outcome. Raises Fatal or KafkaException when the life is over; the row is
        written anyway."""
        producer = self._life.producer
        error = 0
        try:
            producer.begin_transaction()
            try:
                work()
                self._ending_ns = self._life.player.clock.now_ns()
                if self._meant is TransactionOutcome.ABORTED:
                    insist(self._life, lambda: producer.abort_transaction(CALL_S))
                else:
                    self.outcome = TransactionOutcome.UNKNOWN  # from here on the broker may have committed it
                    insist(self._life, lambda: producer.commit_transaction(CALL_S))
                    self.outcome = TransactionOutcome.COMMITTED
            except KafkaException as failure:
                error = error_of(failure).code()
                if error_of(failure).fatal():
                    raise
                # the library lets a transaction be aborted only while it is not committed
                self._ending_ns = self._ending_ns or self._life.player.clock.now_ns()
                insist(self._life, lambda: producer.abort_transaction(CALL_S))
                self.outcome = TransactionOutcome.ABORTED
        except KafkaException as failure:
            error = error_of(failure).code()
            raise Fatal(error_of(failure)) from failure
        finally:
            self._life.outbox.settle()
            self._write(error)
        return self.outcome

    def _write(self, error: int) -> None:
        page = self._life.player.page
        page.add(Slot.COMMITTED, self.outcome is TransactionOutcome.COMMITTED)
        page.add(Slot.ABORTED, self.outcome is TransactionOutcome.ABORTED)
        if self._life.history is None:
            return
        self._life.history.add(
            "transactions",
            {
                "producer": [self._life.number],
                "transaction": self.number,
                "first_seq": self._first_seq,
                "last_seq": self._life.values.next_seq - 1,
                "outcome": int(self.outcome),
                "meant": int(self._meant),
                "error": error,
                "begin_ns": self._begin_ns,
                "ending_ns": self._ending_ns or self._life.player.clock.now_ns(),
                "end_ns": self._life.player.clock.now_ns(),
            },
        )

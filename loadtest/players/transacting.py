"""A transactional producer: a fixed number of records per transaction; most are committed, some
aborted."""

from confluent_kafka import KafkaError, KafkaException

from loadtest.history import TransactionOutcome
from loadtest.page import Slot
from loadtest.players.life import Fatal, ProducerLife
from loadtest.players.part import Player
from loadtest.players.producing import BLOCK, IDLE_S, NOTHING, schedule_of
from loadtest.players.transaction import Transaction, begin_transactions
from loadtest.record import MEANT_TO_ABORT
from loadtest.shape import Schedule

MAX_S = 2.0


class TransactingPlayer(Player):
    """Runs in: its own process."""

    def play(self) -> None:
        schedule = schedule_of(self.part, self)
        while not self.stopping:
            life = ProducerLife(self, self.part.topics[self.part.mode], self.part.label)
            try:
                begin_transactions(life)
                while not self.stopping:
                    self._transaction(life, schedule)
            except (Fatal, KafkaException) as failure:
                print(f"{self.part.label}: begins a new life: {failure}", flush=True)
            finally:
                life.close()

    def _transaction(self, life: ProducerLife, schedule: Schedule) -> None:
        """One transaction from its first due record on. Raises Fatal, KafkaException when the life
        is over."""
        while not self.stopping:
            schedule.advance(self.clock.now_ns())
            if schedule.waiting or self.part.rate == 0:
                break
            life.poll(IDLE_S)
        else:
            return
        abort = self.random.random() < self.settings.abort_share
        transaction = Transaction(life, TransactionOutcome.ABORTED if abort else TransactionOutcome.COMMITTED)
        transaction.run(lambda: self._send(life, schedule, transaction, MEANT_TO_ABORT if abort else 0))

    def _send(self, life: ProducerLife, schedule: Schedule, transaction: Transaction, flags: int) -> None:
        until_ns = self.clock.now_ns() + int(MAX_S * 1e9)
        left = self.settings.transaction_records
        while left > 0 and self.clock.now_ns() < until_ns and not self.stopping:
            now_ns = self.clock.now_ns()
            schedule.advance(now_ns)
            limit = min(BLOCK, left, life.outbox.room(life.values.next_seq))
            intended_ns = schedule.take(limit, now_ns) if limit > 0 else NOTHING
            self.page[Slot.WAITING] = schedule.waiting
            if len(intended_ns):
                life.send(life.values.make(intended_ns, flags), transaction.number)
                left -= len(intended_ns)
            life.poll(0 if len(intended_ns) else IDLE_S)
        if life.flush(30):
            # a report is late; commit would wait for it anyway, and says what is wrong
            raise KafkaException(
                KafkaError(KafkaError._TIMED_OUT, "records of a transaction are not settled")
            )

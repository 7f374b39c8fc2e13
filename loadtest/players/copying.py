"""Consumes, transforms and produces exactly once: each output record is in one transaction with the
offset of its input."""

import numpy as np
from confluent_kafka import KafkaException, Message, TopicPartition

from loadtest.history import TransactionOutcome
from loadtest.page import Slot
from loadtest.players.consuming import CATCH_UP, PATIENCE_S, QUIET_S
from loadtest.players.failures import error_of
from loadtest.players.life import Fatal, ProducerLife
from loadtest.players.membership import Membership
from loadtest.players.part import Player
from loadtest.players.transaction import CALL_S, Transaction, begin_transactions
from loadtest.players.values import Numbers
from loadtest.record import MEANT_TO_ABORT

MODE = "copied"
SOURCE = "transactional"


class CopyingPlayer(Player):
    """Runs in: its own process. Reads the transactional topic, read_committed."""

    def play(self) -> None:
        self._quiet_since_ns = 0
        while not self._ended():
            life = ProducerLife(self, self.part.topics[MODE], self.part.label, consumed=True)
            source = self.part.topics[SOURCE]
            member: Membership | None = None
            try:
                begin_transactions(life)
                member = Membership(self, source, f"{source}-copiers", "read_committed", role="copy")
                while not self._ended():
                    self._step(life, member)
            except (Fatal, KafkaException) as failure:
                print(f"{self.part.label}: begins a new life: {failure}", flush=True)
            finally:
                if member is not None:
                    member.close(commit=False)
                life.close()

    def _ended(self) -> bool:
        """Whether to end: the user has requested a stop and, if the player catches up first, no
        record has arrived for a while."""
        if not self.stopping:
            self._stop_ns = self._quiet_since_ns = self.clock.now_ns()
            return False
        now_ns = self.clock.now_ns()
        quiet = now_ns - self._quiet_since_ns > QUIET_S * 1e9 or now_ns - self._stop_ns > PATIENCE_S * 1e9
        return self.page[Slot.STOP] != CATCH_UP or quiet

    def _step(self, life: ProducerLife, member: Membership) -> None:
        messages = member.read(self.settings.transaction_records, 0.2)
        life.poll(0)
        life.check()
        messages = [message for message in messages if message.partition() in member.ordinals]
        if not messages:
            return
        self._quiet_since_ns = self.clock.now_ns()
        keys = member.inbox.take(member.topic, messages, lambda partition: member.ordinals.get(partition, -1))
        abort = self.random.random() < self.settings.abort_share
        meant = TransactionOutcome.ABORTED if abort else TransactionOutcome.COMMITTED
        transaction = Transaction(life, meant)
        firsts: dict[int, int] = {}
        for message in messages:
            firsts.setdefault(_partition(message), _offset(message))
        outcome = transaction.run(lambda: self._work(life, member, transaction, messages, keys, abort))
        if outcome is TransactionOutcome.ABORTED:
            member.rewind(firsts)

    def _work(
        self,
        life: ProducerLife,
        member: Membership,
        transaction: Transaction,
        messages: list[Message],
        keys: Numbers,
        abort: bool,
    ) -> None:
        now_ns = np.full(len(messages), self.clock.now_ns(), np.int64)
        block = life.values.make(now_ns, MEANT_TO_ABORT if abort else 0, np.maximum(keys, 0))
        if life.history is not None:
            life.history.add(
                "copies",
                {
                    "producer": life.number,
                    "seq": block.seqs,
                    "transaction": transaction.number,
                    "group": member.group,
                    "input_topic": member.topic,
                    "input_partition": [_partition(message) for message in messages],
                    "input_offset": [_offset(message) for message in messages],
                },
            )
        life.send(block, transaction.number)
        due = {_partition(message): _offset(message) + 1 for message in messages}
        asked_ns = self.clock.now_ns()
        places = [TopicPartition(member.topic, partition, offset) for partition, offset in due.items()]
        errors = dict.fromkeys(due, 0)
        try:
            life.producer.send_offsets_to_transaction(
                places, member.consumer.consumer_group_metadata(), CALL_S
            )
        except KafkaException as failure:
            errors = dict.fromkeys(due, error_of(failure).code())
            raise
        finally:
            member.write_commits(due, errors, asked_ns, transaction.number, life.number)
        life.flush(30)


def _partition(message: Message) -> int:
    partition = message.partition()
    assert partition is not None
    return partition


def _offset(message: Message) -> int:
    offset = message.offset()
    assert offset is not None
    return offset

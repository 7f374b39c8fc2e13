"""One life of a producer: a client object with its own number, values, outbox and history.

A life ends cleanly or by a fatal error; the player then begins the next one with a new number.
"""

import os
import time

from confluent_kafka import KafkaError, KafkaException, Producer

from loadtest.client_settings import client_settings
from loadtest.history import writer_name
from loadtest.page import Slot
from loadtest.players.outbox import MAX_PENDING, Intents, Outbox
from loadtest.players.part import QUICK, Player
from loadtest.players.values import Block, Keys, Values, bodies
from loadtest.run import ProducerClient

FLUSH_S = 45.0
SETTLE_EVERY_S = 0.05
SETTLE_AT = 5000
MESSAGE_TIMEOUT_MS = 120_000
NEVER_MS = 0
"""message.timeout.ms of idempotent producers. If one gave up a record, librdkafka would begin a new
epoch and send the records in progress again, appended or not (KIP-360): no broker can recognise
these copies."""
TRANSACTION_TIMEOUT_MS = 30_000


class Fatal(Exception):
    """The client object cannot continue; a new life can."""


class ProducerLife:
    """Owner: a producing player, which closes it."""

    def __init__(
        self, player: Player, topic: str, transactional_id: str | None, consumed: bool = False
    ) -> None:
        settings, self.player, self.topic = player.settings, player, topic
        self.number = player.new_number("producer")
        self._name = writer_name("producer", self.number)
        idempotent = player.part.mode != "plain"
        self.history = player.keep_history(self._name)
        self.outbox = Outbox(
            self.number,
            topic,
            player.page,
            player.clock,
            self.history,
            Intents(player.folder, self.number, player.clock),
        )
        seed = settings.seed * 1000 + self.number
        keys = Keys(settings.keys, settings.skew, seed)
        pool = bodies(*settings.record_bytes, seed)
        self.values = Values(
            player.part.run, self.number, keys, settings.partitions, pool, transactional_id is not None
        )
        self.client = ProducerClient(
            producer=self.number,
            topic=topic,
            acks="all" if idempotent else settings.acks,
            idempotent=idempotent,
            transactional_id=transactional_id,
            compression=settings.compression,
            record_bytes=settings.record_bytes[1],
            process_id=os.getpid(),
            started_ns=player.clock.now_ns(),
        )
        player.register(self._name, self.client)
        player.page.add(Slot.LIVES, 1)
        self.transactions = 0
        self._next_settle = 0.0
        self._fatal: KafkaError | None = None
        self.producer = Producer(self._configuration(idempotent, transactional_id, consumed))
        self._on_delivery = self.outbox.on_delivery()

    def _configuration(
        self, idempotent: bool, transactional_id: str | None, consumed: bool
    ) -> dict[str, str | int | float | bool | object]:
        settings = self.player.settings
        timeout_ms = NEVER_MS if idempotent else MESSAGE_TIMEOUT_MS
        configuration: dict[str, str | int | float | bool | object] = {
            **client_settings(),
            **QUICK,
            "bootstrap.servers": self.player.part.bootstrap,
            "client.id": self._name,
            "compression.type": settings.compression,
            "linger.ms": 1.0 if consumed else settings.linger_ms,
            "acks": self.client.acks,
            "enable.idempotence": idempotent,
            "message.timeout.ms": TRANSACTION_TIMEOUT_MS if transactional_id else timeout_ms,
            "queue.buffering.max.messages": MAX_PENDING + 1000,
            "retry.backoff.ms": 20,
            "error_cb": self._on_error,
        }
        if transactional_id:
            configuration["transactional.id"] = transactional_id
            configuration["transaction.timeout.ms"] = TRANSACTION_TIMEOUT_MS
        return configuration

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self._fatal = error

    def send(self, block: Block, transaction: int = -1) -> None:
        """Hands records to the client library. Raises Fatal, KafkaException."""
        timestamp_ms = self.outbox.add(block, transaction)
        produce, topic, report = self.producer.produce, self.topic, self._on_delivery
        for value, key, partition, headers in zip(
            block.values, block.key_texts, block.partitions.tolist(), block.headers, strict=True
        ):
            while True:
                try:
                    produce(
                        topic,
                        value,
                        key,
                        partition,
                        on_delivery=report,
                        timestamp=timestamp_ms,
                        headers=headers or None,  # type: ignore[arg-type] # null values, too
                    )
                    break
                except BufferError:
                    self.player.look_around()
                    self.producer.poll(0.01)
        self.check()

    def check(self) -> None:
        """Raises Fatal after a fatal error of the client library."""
        if self._fatal is not None:
            raise Fatal(self._fatal)

    def poll(self, seconds: float) -> None:
        """Serves reports; they are settled in larger portions, which costs a fraction of settling
        each."""
        self.producer.poll(seconds)
        if self.outbox.reported >= SETTLE_AT or time.monotonic() > self._next_settle:
            self.outbox.settle()
            self._next_settle = time.monotonic() + SETTLE_EVERY_S
        self.player.look_around()

    def flush(self, seconds: float) -> int:
        """Wait until all records are settled; returns the number of unsettled ones."""
        until_ns = self.player.clock.now_ns() + int(seconds * 1e9)
        while self.outbox.pending and self.player.clock.now_ns() < until_ns and self._fatal is None:
            self.producer.flush(0.05)
            self.outbox.settle()
            self.player.look_around()
        return self.outbox.pending

    def close(self) -> None:
        """Flushes, gives up what is left, seals the history."""
        left = self.flush(FLUSH_S)
        if left:
            try:
                self.producer.purge(in_flight=True)
                self.producer.poll(0.5)
            except KafkaException:
                pass
        error = self._fatal.code() if self._fatal is not None else KafkaError._MSG_TIMED_OUT
        self.outbox.give_up(error)
        if self.history is not None:
            self.client.files = self.history.close()
            self.client.attempted = self.values.next_seq
        self.client.ended_ns = self.player.clock.now_ns()
        self.player.register(self._name, self.client)

"""A member of a share group: reads and acknowledges records until it is stopped."""

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka import (  # type: ignore[attr-defined] # its stubs know no ShareConsumer
    AcknowledgeType,
    KafkaException,
    Message,
    ShareConsumer,
)

from loadtest.client_settings import client_settings
from loadtest.delivered import described
from loadtest.histogram import count
from loadtest.history import ShareAck, writer_name
from loadtest.page import Slot, Times
from loadtest.players.consuming import CATCH_UP, PATIENCE_S, QUIET_S
from loadtest.players.failures import error_of
from loadtest.players.inbox import decoded
from loadtest.players.part import QUICK, Player
from loadtest.run import ConsumerClient

POLL_S = 0.2
COMMIT_S = 10.0
RELEASED, REJECTED = 0.05, 0.02  # shares of what is given
LOCK_S = 31.0  # share.record.lock.duration.ms, Kafka's own, and a little for the timer
MAX_DELIVERIES = 3  # then it is accepted: nothing is given up for having been released too often
UNANSWERED = -1
SAID = {
    ShareAck.ACCEPT: AcknowledgeType.ACCEPT,
    ShareAck.RELEASE: AcknowledgeType.RELEASE,
    ShareAck.REJECT: AcknowledgeType.REJECT,
}


class SharingPlayer(Player):
    """Runs in: its own process."""

    def play(self) -> None:
        topic = self.part.topics[self.part.mode]
        number = self.new_number("consumer")
        self._name = writer_name("consumer", number)
        self.history = self.keep_history(self._name)
        self._client = ConsumerClient(
            consumer=number,
            group=f"{topic}-sharers",
            role="share",
            topics=[topic],
            isolation="read_uncommitted",  # share.isolation.level and share.auto.offset.reset: Kafka's own
            offset_reset="latest",
            process_id=os.getpid(),
            started_ns=self.clock.now_ns(),
        )
        self.register(self._name, self._client)
        self.page.add(Slot.LIVES, 1)
        consumer = ShareConsumer(
            {
                **client_settings(),
                **QUICK,
                "bootstrap.servers": self.part.bootstrap,
                "client.id": self._name,
                "group.id": self._client.group,
                "share.acknowledgement.mode": "explicit",
            }
        )
        consumer.subscribe([topic])
        try:
            while not self.stopping:
                self._turn(consumer)
            if self.page[Slot.STOP] == CATCH_UP:
                self._client.finished = self._catch_up(consumer)
        finally:
            self._close(consumer)

    def _close(self, consumer: Any) -> None:
        try:
            consumer.close()
        except KafkaException as failure:
            print(f"{self.part.label}: {failure}", flush=True)
        if self.history is not None:
            self._client.files = self.history.close()
        self._client.ended_ns = self.clock.now_ns()
        self.register(self._name, self._client)

    def _turn(self, consumer: Any) -> int:
        try:
            messages = [message for message in consumer.poll(POLL_S) or () if message.error() is None]
        except KafkaException as failure:
            print(f"{self.part.label}: {failure}", flush=True)
            time.sleep(0.1)
            return 0
        self.look_around()
        if messages:
            self._acknowledge(consumer, messages)
        return len(messages)

    def _acknowledge(self, consumer: Any, messages: Sequence[Message]) -> None:
        acquired_ns = self.clock.now_ns()
        acks = [self._decide(message) for message in messages]
        for message, ack in zip(messages, acks, strict=True):
            consumer.acknowledge(message, SAID[ack])
        asked_ns = self.clock.now_ns()
        errors: dict[int, int] = {}
        otherwise = 0
        try:
            for place, failure in consumer.commit_sync(COMMIT_S).items():
                errors[place.partition] = error_of(failure).code() if failure is not None else 0
        except KafkaException as failure:
            otherwise = error_of(failure).code() or UNANSWERED
        self._write(messages, acks, acquired_ns, asked_ns, errors, otherwise)

    def _decide(self, message: Message) -> ShareAck:
        drawn = self.random.random()
        if drawn < RELEASED and (message.delivery_count() or 0) < MAX_DELIVERIES:  # type: ignore[attr-defined]
            return ShareAck.RELEASE
        return ShareAck.REJECT if drawn > 1 - REJECTED else ShareAck.ACCEPT

    def _write(
        self,
        messages: Sequence[Message],
        said: list[ShareAck],
        acquired_ns: int,
        asked_ns: int,
        errors: dict[int, int],
        otherwise: int,
    ) -> None:
        taken = decoded(self.part.run, messages)
        self.page.add(Slot.SEEN, len(messages))
        self.page.add(Slot.SEEN_BYTES, taken.size)
        seen = np.full(len(messages), acquired_ns, np.int64)
        intended = np.where(taken.ours, taken.heads["intended_ns"].astype(np.int64), -1)
        self.page.times(Times.END_TO_END)[:] += count((seen - intended)[taken.intact])
        if self.history is None:
            return
        counts = [message.delivery_count() for message in messages]  # type: ignore[attr-defined]
        self.history.add(
            "shares",
            described(taken.heads, taken.ours)
            | {
                "consumer": self._client.consumer,
                "group": self._client.group,
                "topic": self._client.topics[0],
                "partition": taken.partitions,
                "offset": taken.offsets,
                "delivery": [UNANSWERED if each is None else each for each in counts],
                "timestamp_ms": taken.timestamps_ms,
                "key": taken.keys,
                "intact": taken.intact,
                "header_sum": taken.header_sums,
                "acquired_ns": acquired_ns,
                "ack": [int(ack) for ack in said],
                "error": [errors.get(partition, otherwise) for partition in taken.partitions.tolist()],
                "asked_ns": asked_ns,
                "answered_ns": self.clock.now_ns(),
            },
        )

    def _catch_up(self, consumer: Any) -> bool:
        """The producers have ended: reads until QUIET_S without a record, and until no fetch that a
        fault left without an answer can hold one; False when records never cease."""
        began = last = time.monotonic()
        while time.monotonic() - last < QUIET_S or self.clock.now_ns() < free_ns(self.folder):
            if time.monotonic() - began > PATIENCE_S:
                return False
            if self._turn(consumer):
                last = time.monotonic()
        return True


def free_ns(folder: Path) -> int:
    """The time at which the locks expire that members got in answers which the last fault lost, by
    the run's clock; 0 without faults."""
    try:
        rows = (folder / "faults.jsonl").read_text().splitlines()
    except FileNotFoundError:
        return 0
    ends_ns = [int(json.loads(row)["end_ns"]) for row in rows]
    return max(ends_ns) + int(LOCK_S * 1e9) if ends_ns else 0

"""One life of a group member: joins, reads, commits, leaves; and the rows about it."""

import os
import time
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from loadtest.client_settings import client_settings
from loadtest.history import UNKNOWN_START, AssignmentEvent, writer_name
from loadtest.page import Slot
from loadtest.players.failures import error_of
from loadtest.players.inbox import Inbox
from loadtest.players.part import QUICK, Player
from loadtest.run import ConsumerClient

CALL_S = 10.0
TAKE_AT = 5000
TAKE_EVERY_S = 0.05
STRATEGIES = {True: "cooperative-sticky", False: "range"}
CLASSIC: dict[str, str | int] = {"session.timeout.ms": 10_000, "heartbeat.interval.ms": 1000}
MODERN: dict[str, str | int] = {
    "group.protocol": "consumer"
}  # the broker decides on time-outs and assignments
NONE = -1001  # OFFSET_INVALID: no committed offset


class Membership:
    """Owner: a consuming player, which closes it. Callbacks of the client library run in its
    thread, inside poll."""

    def __init__(
        self,
        player: Player,
        topic: str,
        group: str,
        isolation: str,
        role: str = "load",
        cooperative: bool = False,
    ) -> None:
        self.player, self.topic, self.group = player, topic, group
        self.number = player.new_number("consumer")
        self._name = writer_name("consumer", self.number)
        self.history = player.keep_history(self._name)
        self.inbox = Inbox(player.part.run, self.number, player.page, player.clock, self.history)
        self._held: list[Message] = []
        self._held_ns: list[int] = []
        self._next_take = 0.0
        self.ordinals: dict[int, int] = {}  # partition -> ordinal of its assignment
        self._next_ordinal = 0
        self._committed: dict[int, int] = {}
        self._client = ConsumerClient(
            consumer=self.number,
            group=group,
            role=role,
            topics=[topic],
            isolation=isolation,
            offset_reset="earliest",
            process_id=os.getpid(),
            started_ns=player.clock.now_ns(),
        )
        player.register(self._name, self._client)
        player.page.add(Slot.LIVES, 1)
        modern = player.settings.group_protocol == "consumer"
        self._cooperative = cooperative or modern
        protocol = MODERN if modern else CLASSIC | {"partition.assignment.strategy": STRATEGIES[cooperative]}
        self.consumer = Consumer(self._settings(isolation) | protocol)
        self.consumer.subscribe([topic], on_assign=self._given, on_revoke=self._taken, on_lost=self._lost)

    def _settings(self, isolation: str) -> dict[str, Any]:
        return {
            **client_settings(),
            **QUICK,
            "bootstrap.servers": self.player.part.bootstrap,
            "client.id": self._name,
            "group.id": self.group,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",
            "isolation.level": isolation,
            "fetch.wait.max.ms": 100,
            "fetch.error.backoff.ms": 20,
            "fetch.queue.backoff.ms": 10,  # with its second a full queue is read out before more is asked for
        }

    def read(self, limit: int, seconds: float) -> list[Message]:
        """Records that are there; waits at most so long for the first. Not yet in the inbox."""
        first = self.consumer.poll(seconds)
        found = [] if first is None else [first, *self.consumer.consume(limit - 1, 0)]
        self.player.look_around()
        return [message for message in found if message.error() is None]

    def hold(self, messages: Sequence[Message]) -> None:
        """Seen now; goes to the history in larger portions, which costs a fraction of a portion
        each poll."""
        self._held.extend(messages)
        self._held_ns.extend([self.player.clock.now_ns()] * len(messages))
        if len(self._held) >= TAKE_AT or time.monotonic() > self._next_take:
            self.take_held()

    def take_held(self) -> None:
        """Into the history; records of a partition that was revoked meanwhile belong to its last
        assignment."""
        self.inbox.take(
            self.topic, self._held, lambda partition: self.ordinals.get(partition, -1), self._held_ns
        )
        self._held, self._held_ns = [], []
        self._next_take = time.monotonic() + TAKE_EVERY_S

    def commit(self, partitions: Sequence[int] | None = None) -> None:
        """Commits what the inbox has taken of the assigned partitions, and waits for the answer."""
        self.take_held()
        next_offsets = self.inbox.next_offsets
        due = {
            partition: next_offsets[partition]
            for partition in (self.ordinals if partitions is None else partitions)
            if partition in next_offsets and next_offsets[partition] != self._committed.get(partition)
        }
        if not due:
            return
        asked_ns = self.player.clock.now_ns()
        errors = dict.fromkeys(due, 0)
        try:
            places = [TopicPartition(self.topic, partition, offset) for partition, offset in due.items()]
            for place in self.consumer.commit(offsets=places, asynchronous=False) or ():
                errors[place.partition] = place.error.code() if place.error else 0
        except KafkaException as failure:
            errors = dict.fromkeys(due, error_of(failure).code())
        for partition, code in errors.items():
            if code == 0:
                self._committed[partition] = due[partition]
        self.write_commits(due, errors, asked_ns)

    def write_commits(
        self,
        due: dict[int, int],
        errors: dict[int, int],
        asked_ns: int,
        transaction: int = -1,
        producer: int = -1,
    ) -> None:
        if self.history is None or not due:
            return
        self.history.add(
            "commits",
            {
                "consumer": self.number,
                "group": self.group,
                "assignment": [self.ordinals.get(partition, -1) for partition in due],
                "topic": self.topic,
                "partition": list(due),
                "offset": list(due.values()),
                "error": [errors[partition] for partition in due],
                "asked_ns": asked_ns,
                "answered_ns": self.player.clock.now_ns(),
                "transaction": transaction,
                "producer": producer,
            },
        )

    def rewind(self, offsets: dict[int, int]) -> None:
        """Goes back to these offsets (a transaction was given up); counts as a new assignment."""
        self.take_held()  # they belong to the assignment before
        at_ns = self.player.clock.now_ns()
        for partition, offset in offsets.items():
            if partition in self.ordinals:
                self.consumer.seek(TopicPartition(self.topic, partition, offset))
                self.inbox.next_offsets[partition] = offset
        self._begin_assignment({p: offset for p, offset in offsets.items() if p in self.ordinals}, at_ns)

    def close(self, commit: bool = True) -> None:
        """Commits, leaves the group, seals the history."""
        self.take_held()
        if commit:
            self.commit()
        try:
            self.consumer.close()
        except (KafkaException, RuntimeError):
            pass
        if self.history is not None:
            self._client.files = self.history.close()
            self._client.delivered = self.inbox.next_position
        self._client.ended_ns = self.player.clock.now_ns()
        self.player.register(self._name, self._client)
        self.player.page[Slot.ASSIGNED] = 0

    def _given(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.take_held()
        known = {}
        try:
            answers = consumer.committed(partitions, CALL_S)
            known = {p.partition: p.offset for p in answers if p.error is None and p.topic == self.topic}
        except KafkaException:
            pass  # the client library asks again by itself, also for one that has an error
        starts = [
            TopicPartition(
                p.topic, p.partition, known.get(p.partition, NONE) if p.topic == self.topic else NONE
            )
            for p in partitions
        ]
        at_ns = self.player.clock.now_ns()
        if self._cooperative:
            consumer.incremental_assign(starts)
        else:
            self.ordinals.clear()
            consumer.assign(starts)
        own = self._of_topic(partitions)
        for partition in own:
            self.inbox.next_offsets.pop(partition, None)
            self._committed.pop(partition, None)
        for topic in sorted({place.topic for place in partitions} - {self.topic}):
            strange = [place.partition for place in partitions if place.topic == topic]
            self._write_rows(AssignmentEvent.ASSIGNED, topic, dict.fromkeys(strange, NONE), -1, at_ns)
        self._begin_assignment({partition: known.get(partition, UNKNOWN_START) for partition in own}, at_ns)

    def _begin_assignment(self, starts: dict[int, int], at_ns: int) -> None:
        """at_ns: taken before the client library could fetch for it."""
        if not starts:
            return
        ordinal, self._next_ordinal = self._next_ordinal, self._next_ordinal + 1
        for partition in starts:
            self.ordinals[partition] = ordinal
        self._write_event(AssignmentEvent.ASSIGNED, starts, at_ns)

    def _taken(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.take_held()
        own = self._of_topic(partitions)
        if self._client.role == "load":
            self.commit(own)
        self._end_assignment(AssignmentEvent.REVOKED, own)

    def _lost(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.take_held()
        self._end_assignment(AssignmentEvent.LOST, self._of_topic(partitions))

    def _of_topic(self, places: Sequence[TopicPartition]) -> list[int]:
        """A broker that fails may assign what was not asked for: that has a row and no more."""
        return [place.partition for place in places if place.topic == self.topic]

    def _end_assignment(self, event: AssignmentEvent, partitions: list[int]) -> None:
        starts = dict.fromkeys((p for p in partitions if p in self.ordinals), NONE)
        self._write_event(event, starts, self.player.clock.now_ns())
        for partition in partitions:
            self.ordinals.pop(partition, None)
        self.player.page[Slot.ASSIGNED] = len(self.ordinals)

    def _write_event(self, event: AssignmentEvent, starts: dict[int, int], at_ns: int) -> None:
        self.player.page[Slot.ASSIGNED] = len(self.ordinals)
        ordinals = [self.ordinals[partition] for partition in starts]
        self._write_rows(event, self.topic, starts, ordinals, at_ns)

    def _write_rows(
        self,
        event: AssignmentEvent,
        topic: str,
        starts: dict[int, int],
        ordinals: list[int] | int,
        at_ns: int,
    ) -> None:
        if self.history is None or not starts:
            return
        self.history.add(
            "assignments",
            {
                "consumer": self.number,
                "group": self.group,
                "assignment": ordinals,
                "event": int(event),
                "topic": topic,
                "partition": list(starts),
                "start_offset": [
                    offset if offset >= 0 or offset == UNKNOWN_START else NONE for offset in starts.values()
                ],
                "at_ns": at_ns,
            },
        )

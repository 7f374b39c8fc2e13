"""Reads every topic from its first record to its end, with assigned partitions, as a late reader
does."""

import os
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from loadtest.client_settings import client_settings
from loadtest.history import writer_name
from loadtest.page import Slot
from loadtest.players.inbox import Inbox
from loadtest.players.part import QUICK, Player
from loadtest.run import ConsumerClient, load_run

SILENT_S = 60.0
AT_ONCE = 10_000


class DrainingPlayer(Player):
    """Runs in: its own process. The isolation level is its label. Ends by itself; LIVES 2: it got
    to the ends."""

    def play(self) -> None:
        number = self.new_number("consumer")
        name = writer_name("consumer", number)
        history = self.keep_history(name)
        run = load_run(self.folder)
        client = ConsumerClient(
            consumer=number,
            group=None,
            role="drain",
            topics=[topic.name for topic in run.topics],
            isolation=self.part.label,
            offset_reset="earliest",
            process_id=os.getpid(),
            started_ns=self.clock.now_ns(),
        )
        self.register(name, client)
        inbox = Inbox(self.part.run, number, self.page, self.clock, history)
        consumer = Consumer(
            {
                **client_settings(),
                **QUICK,
                "bootstrap.servers": self.part.bootstrap,
                "group.id": "nobody",
                "client.id": name,
                "enable.auto.commit": False,
                "isolation.level": self.part.label,
                "auto.offset.reset": "error",
                "enable.partition.eof": True,
                "fetch.message.max.bytes": 4 << 20,
            }
        )
        try:
            read = [
                self._read(
                    consumer, inbox, topic.name, run.ends[topic.name]
                )  # each topic is read, whatever the result of the previous one
                for topic in run.topics
            ]
            client.finished = all(read)
        finally:
            consumer.close()
            if history is not None:
                client.files = history.close()
                client.delivered = inbox.next_position
            client.ended_ns = self.clock.now_ns()
            self.register(name, client)
        self.page[Slot.LIVES] = 1 + client.finished

    def _read(self, consumer: Consumer, inbox: Inbox, topic: str, ends: dict) -> bool:  # type: ignore[type-arg]
        """One topic. Whether every partition was read up to its end; control records at the end are
        passed over."""
        committed = self.part.label == "read_committed"
        targets = {
            int(partition): end.last_stable_offset if committed else end.high_watermark
            for partition, end in ends.items()
        }
        inbox.next_offsets.clear()
        consumer.assign([TopicPartition(topic, int(p), end.start_offset) for p, end in ends.items()])
        left = {partition for partition, end in targets.items() if end > ends[str(partition)].start_offset}
        silent_since = time.monotonic()
        while left and not self.stopping:
            try:
                events = consumer.consume(AT_ONCE, 0.2)
            except KafkaException:
                events = []
            self.look_around()
            for event in events:
                error, partition, offset = event.error(), event.partition(), event.offset()
                if error is None or partition is None or offset is None:
                    continue
                if error.code() == KafkaError._PARTITION_EOF and offset >= targets[partition]:
                    left.discard(partition)
            messages = [event for event in events if event.error() is None]
            if messages:
                inbox.take(topic, messages, lambda _partition: -1)
                silent_since = time.monotonic()
            if time.monotonic() - silent_since > SILENT_S:
                break
        return not left

"""Copies a topic exactly once: consume, transform, produce, commit offsets, all in one transaction
after the other.

`python -m tests.crash.copier bootstrap source target partitions records`: ends when all is copied; may be killed and
started again at any time. After any error it starts over with fresh clients, as an application
would.
"""

import faulthandler
import random
import sys
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

GROUP = TRANSACTION = "copier"
BATCH = 20
ABORTS = 0.1  # share of transactions that are given up on purpose
PATIENCE_S = 20
STUCK_S = 25


def transform(value: bytes) -> bytes:
    """What the copy says."""
    return b"copied " + value


class Copier:
    """One incarnation of the application: a consumer and a transactional producer."""

    def __init__(self, bootstrap: str, source: str, target: str, partitions: int) -> None:
        quick = {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 100, "bootstrap.servers": bootstrap}
        self._target = target
        self._places = [TopicPartition(source, partition) for partition in range(partitions)]
        self._producer = Producer(
            {
                **quick,
                "transactional.id": TRANSACTION,
                "transaction.timeout.ms": 10_000,
                "retry.backoff.ms": 10,
            }
        )
        self._producer.init_transactions(PATIENCE_S)
        self._consumer = Consumer(
            {
                **quick,
                "group.id": GROUP,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
            }
        )
        # manual assignment: nothing but committed offsets decides where to go on
        self._consumer.assign(
            [
                TopicPartition(place.topic, place.partition, max(place.offset, 0))
                for place in self._consumer.committed(self._places, PATIENCE_S)
            ]
        )

    def copied(self) -> int:
        """Records that the group has committed."""
        committed = self._consumer.committed(self._places, PATIENCE_S)
        return sum(max(place.offset, 0) for place in committed)

    def step(self, chance: random.Random) -> None:
        """One transaction, if there is something to copy; chance says whether it is aborted."""
        messages = self._consumer.consume(BATCH, 0.5)
        if not messages:
            return
        self._producer.begin_transaction()
        for message in messages:
            if message.error():
                raise KafkaException(message.error())
            value = message.value()
            assert isinstance(value, bytes)
            self._producer.produce(self._target, transform(value), partition=message.partition())
        positions = self._consumer.position(self._places)
        # this one call of librdkafka may wait forever when its coordinator goes away at the wrong
        # moment, whatever its timeout says (librdkafka 5456, 5511): the application then ends, and
        # the process that watches it restarts it
        faulthandler.dump_traceback_later(STUCK_S, exit=True)
        self._producer.send_offsets_to_transaction(
            [place for place in positions if place.offset >= 0],
            self._consumer.consumer_group_metadata(),
            PATIENCE_S,
        )
        faulthandler.cancel_dump_traceback_later()
        if chance.random() < ABORTS:
            self._producer.abort_transaction(PATIENCE_S)
            raise InterruptedError
        self._producer.commit_transaction(PATIENCE_S)

    def close(self) -> None:
        self._consumer.close()


def main(bootstrap: str, source: str, target: str, partitions: int, records: int, seed: int) -> None:
    chance = random.Random(seed)
    while True:
        copier = None
        try:
            copier = Copier(bootstrap, source, target, partitions)
            while copier.copied() < records:
                copier.step(chance)
            return
        except InterruptedError:
            pass  # aborted on purpose
        except KafkaException as error:
            faulthandler.cancel_dump_traceback_later()
            print(f"starts over: {error}", flush=True)
            time.sleep(0.05)
        finally:
            if copier is not None:
                copier.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), int(sys.argv[6]))

"""A compacted topic with a closed segment: a broker that has one runs its cleaner."""

import time

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

ROLLED_MS = 3_600_000


def leave_dirt(bootstrap: str, topic: str = "dirty", **config: str) -> None:
    """Create a compacted topic and roll its log: segment.ms goes by the records' timestamps."""
    made = NewTopic(topic, 1, 1, config={"cleanup.policy": "compact", "segment.ms": "600000", **config})
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([made])[topic].result(60)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    now_ms = time.time_ns() // 1_000_000
    for timestamp in (now_ms - ROLLED_MS, now_ms):
        producer.produce(topic, b"v", b"k", timestamp=timestamp)
        assert producer.flush(60) == 0

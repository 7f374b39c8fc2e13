"""Compaction as it may be, and as it may not."""

from tests.spark_validation.world import BATCH, PARTITIONS, Batch, Topic, read_row

ACTIVE = 10 * BATCH  # what is written last is never compacted


def compact(topic: Topic) -> None:
    """Leaves the last record of every key and the active segment; what readers saw before stays."""
    topic.cleanup_policy = "compact"
    for partition in range(PARTITIONS):
        last = {record.key: offset for offset, record, _ in topic.records(partition)}
        kept = []
        for offset, record, batch in topic.records(partition):
            if last[record.key] == offset or offset >= ACTIVE:
                kept.append(Batch(offset, [record], batch.producer_id, batch.sequence + offset - batch.base))
        topic.log[partition] = kept
    for consumer in (topic.drain, topic.committed_drain):
        topic.rows["reads"] = [row for row in topic.rows["reads"] if row["consumer"] != consumer]
        for partition in range(PARTITIONS):
            for offset, record, _ in topic.records(partition):
                topic.rows["reads"].append(read_row(topic, consumer, -1, partition, offset, record))


def compact_too_much(topic: Topic) -> None:
    compact(topic)
    gone = topic.log[0].pop(0)
    topic.rows["reads"] = [
        row
        for row in topic.rows["reads"]
        if (row["partition"], row["offset"]) != (0, gone.base) or row["consumer"] == topic.reader
    ]

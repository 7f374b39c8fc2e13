"""Writes small runs made by hand as a load test and its broker would: run folder, histories,
segments."""

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from loadtest import history
from loadtest.run import ConsumerClient, PartitionEnds, ProducerClient, Run, save_client, save_run
from loadtest.run import Topic as RunTopic
from tests.spark_validation.world import (
    BATCH,
    BATCHES,
    MS,
    PARTITIONS,
    RUN,
    START_NS,
    Batch,
    Topic,
    first_open,
)


def write(folder: Path, topics: list[Topic], topics_of_a_file: int = 1) -> None:
    """folder/run, folder/data and folder/earlier. topics_of_a_file: a kind of history has a file
    for as many topics, named by the number of the first."""
    run = folder / "run"
    (run / "intents").mkdir(parents=True)
    content = Run(RUN, 1, "", "by hand", START_NS, {}, [])
    content.ended_ns, content.drained = START_NS + 100_000 * MS, True
    content.ends_ns = content.ended_ns
    for topic in topics:
        content.topics.append(
            RunTopic(topic.name, PARTITIONS, topic.mode, topic.cleanup_policy, topic.config)
        )
        content.deletions += topic.deletions
        ends = {p: log[-1].end if log else 0 for p, log in topic.log.items()}
        content.ends[topic.name] = {str(p): partition_ends(topic, p, end) for p, end in ends.items()}
        content.committed[topic.group] = {topic.name: {str(p): o for p, o in topic.committed.items()}}
        if topic.copied_from:
            content.committed[topic.copiers] = {topic.copied_from: {"0": topic.copied_until}}
        write_clients(run, topic)
        write_log(folder / "data", topic, topic.log)
        write_log(folder / "earlier", topic, topic.earlier or topic.log)
    for first in range(0, len(topics), topics_of_a_file):
        write_rows(run, topics[first : first + topics_of_a_file])
    starts = [(topic.name, topic.checkpointed_start) for topic in topics]
    for name, offsets in (
        ("log-start-offset-checkpoint", starts),
        ("cleaner-offset-checkpoint", [(topic.name, topic.cleaned) for topic in topics]),
    ):
        entries = [f"{topic} 0 {offset}\n" for topic, offset in offsets if offset]
        (folder / "data" / name).write_text("".join(["0\n", f"{len(entries)}\n", *entries]))
    save_run(run, content)


def partition_ends(topic: Topic, partition: int, end: int) -> PartitionEnds:
    stable = first_open(topic.log[partition])
    if partition:
        return PartitionEnds(0, end, stable)
    high = topic.high_watermark or end
    stable = high if stable == end else stable
    return PartitionEnds(topic.start_offset, high, stable if topic.last_stable < 0 else topic.last_stable)


def write_clients(run: Path, topic: Topic) -> None:
    ended = START_NS + 90_000 * MS
    for producer in topic.producers:
        identifier = f"tx-{producer}" if topic.transactional else None
        idempotent = topic.mode != "plain"
        until = None if producer in topic.killed else ended
        seqs = [row["seq"] for row in topic.rows["sends"] if row["producer"] == producer]
        attempted = max(seqs) + 1 if until else None
        client = ProducerClient(
            producer,
            topic.name,
            topic.acks,
            idempotent,
            identifier,
            topic.codec.name.lower(),
            44,
            1,
            START_NS,
            until,
            attempted,
        )
        save_client(run, history.writer_name("producer", producer), client)
        intent = {
            "producer": producer,
            "first_seq": 0,
            "last_seq": PARTITIONS * BATCHES * BATCH,
            "at_ns": START_NS,
        }
        (run / "intents" / f"p{producer:06d}.jsonl").write_text(json.dumps(intent) + "\n")
    write_consumers(run, topic, ended)


def write_consumers(run: Path, topic: Topic, ended: int) -> None:
    reader = ConsumerClient(
        topic.reader, topic.group, "load", [topic.name], "read_committed", "earliest", 1, START_NS, ended
    )
    drain = replace(reader, consumer=topic.drain, group=None, role="drain", isolation="read_uncommitted")
    drain.started_ns, drain.finished = ended, True
    both = replace(drain, consumer=topic.committed_drain, isolation="read_committed")
    copier = replace(
        reader, consumer=topic.reader + 3, group=topic.copiers, role="copy", topics=[topic.copied_from]
    )
    sharers = [
        replace(reader, consumer=topic.reader + n, group=topic.sharers, role="share", finished=True)
        for n in (4, 5)
    ]
    others = [
        replace(reader, consumer=consumer, group=group, topics=[name])
        for consumer, (group, name) in topic.members.items()
    ]
    more = [*([copier] if topic.copied_from else []), *(sharers if topic.rows["shares"] else []), *others]
    for consumer in (reader, drain, both, *more):
        lost = topic.lost_reads.get(consumer.consumer, 0)
        consumer.delivered = len(topic.reads_of(consumer.consumer)) + lost
        save_client(run, history.writer_name("consumer", consumer.consumer), consumer)


def write_log(data: Path, topic: Topic, log: dict[int, list[Batch]]) -> None:
    for partition, batches in log.items():
        folder = data / f"{topic.name}-{partition}"
        folder.mkdir(parents=True)
        # three segments
        for n in range(0, len(batches), 10):
            some = batches[n : n + 10]
            stem = folder / f"{some[0].base:020d}"
            made = [batch.bytes(topic.codec) for batch in some]
            stem.with_suffix(".log").write_bytes(b"".join(made))
            position = len(made[0]) + (7 if topic.spoiled_index and partition == 0 and n == 0 else 0)
            entry = (some[1].end - 1 - some[0].base).to_bytes(4) + position.to_bytes(4) if some[1:] else b""
            stem.with_suffix(".index").write_bytes(entry + bytes(80))
        for name, content in topic.files.items() if partition == 0 else ():
            if content is None:
                (folder / name).unlink(missing_ok=True)
            else:
                (folder / name).write_bytes(content)


def write_rows(run: Path, topics: list[Topic]) -> None:
    for topic in topics:
        positions: dict[int, int] = {}
        for row in topic.rows["reads"]:
            row["position"] = positions.setdefault(row["consumer"], 0)
            positions[row["consumer"]] += 1
    for kind in topics[0].rows:
        (run / kind).mkdir(exist_ok=True)
        if rows := [row for topic in topics for row in topic.rows[kind]]:
            table = pa.Table.from_pylist(rows, history.KINDS[kind])
            pq.write_table(table, run / kind / f"t{topics[0].number:06d}-0000.parquet")

"""Whether the files of a run can be read and agree with one another, before anything is judged by
them: what is damaged, or contradicts itself, is no evidence for or against a broker."""

import hashlib
import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from loadtest import history
from loadtest.run import ConsumerClient, ProducerClient, Run, load_consumers, load_producers
from spark_validation.segments.ranges import partition_folders
from spark_validation.verdict import CannotJudge

OPTIONAL = {"header_sum", "tombstone"}  # a history of before has no such columns


def require_whole(folder: Path) -> None:
    """Raises CannotJudge when a finished file of the histories cannot be read, or lacks columns."""
    for kind, schema in history.KINDS.items():
        expected = set(schema.names) - OPTIONAL
        for path in sorted((folder / kind).glob("*.parquet")):
            try:
                names = pq.read_schema(path).names
            except (pa.ArrowException, OSError) as error:
                raise CannotJudge(f"{path} is no whole Parquet file") from error
            if missing := sorted(expected - set(names)):
                raise CannotJudge(f"{path} lacks the columns {', '.join(missing)}")


def require_once(folder: Path) -> None:
    """Raises CannotJudge when two files of a history are the same: the rows of one of them are
    counted twice."""
    for kind in history.KINDS:
        sizes: dict[int, list[Path]] = {}
        for path in sorted((folder / kind).glob("*.parquet")):
            sizes.setdefault(path.stat().st_size, []).append(path)
        known: dict[bytes, Path] = {}
        for path in (path for same in sizes.values() if len(same) > 1 for path in same):
            with open(path, "rb") as content:
                digest = hashlib.file_digest(content, "sha256").digest()
            if digest in known and pq.read_metadata(path).num_rows:
                raise CannotJudge(f"{path} is a copy of {known[digest].name}")
            known[digest] = path


def clients_of(folder: Path) -> tuple[list[ProducerClient], list[ConsumerClient]]:
    """Raises CannotJudge when a client's file cannot be read."""
    try:
        return load_producers(folder), load_consumers(folder)
    except (json.JSONDecodeError, UnicodeDecodeError, TypeError, AttributeError) as error:
        raise CannotJudge(f"a file of {folder / 'clients'} cannot be read: {error}") from error


def require_agreement(folder: Path, run: Run) -> None:
    """Raises CannotJudge when run.json contradicts itself or the clients. run: with all of its
    topics."""
    if not run.topics:
        raise CannotJudge(f"{folder}/run.json names no topic")
    if run.ended_ns is not None and run.ended_ns < run.started_ns:
        raise CannotJudge(f"{folder}/run.json: the run ended before it started")
    producers, consumers = clients_of(folder)
    for role, numbers in (
        ("producer", [p.producer for p in producers]),
        ("consumer", [c.consumer for c in consumers]),
    ):
        if twice := sorted(number for number, files in Counter(numbers).items() if files > 1):
            raise CannotJudge(f"{folder}/clients: two files are of {role} {twice[0]}")
    modes = {topic.name: topic.mode for topic in run.topics}
    named = {p.topic for p in producers} | {topic for c in consumers for topic in c.topics}
    if strange := sorted(named - set(modes)):
        raise CannotJudge(f"{folder}/run.json does not name the clients' topics {', '.join(strange[:5])}")
    for producer in producers:
        known = mode_of(producer)
        if modes[producer.topic] not in known:
            raise CannotJudge(
                f"{folder}/run.json calls {producer.topic} {modes[producer.topic]}, "
                f"its producer {producer.producer} is {known[0]}"
            )


def mode_of(producer: ProducerClient) -> tuple[str, ...]:
    """The modes of a topic that its producer may have."""
    if producer.transactional_id is not None:
        return ("transactional", "copied")
    return ("idempotent",) if producer.idempotent else ("plain",)


def require_partitions(data_dirs: list[str], run: Run) -> None:
    """Raises CannotJudge when a log is there of a partition that the topic has not."""
    sizes = {topic.name: topic.partitions for topic in run.topics}
    for folder, topic, partition in partition_folders(data_dirs, list(sizes)):
        if partition >= sizes[topic]:
            raise CannotJudge(f"{folder}: run.json gives {topic} {sizes[topic]} partitions")

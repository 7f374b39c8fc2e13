"""Consumers whose rows are gone in portions: a file, the first or last rows, a whole topic or
partition. A single number that is missing within a file was never a row's."""

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from loadtest.run import ConsumerClient, Run


def lossy_consumers(reads: DataFrame, clients: list[ConsumerClient], run: Run) -> list[int]:
    """Consumers that were given records of which whole portions have no row. reads: of every
    topic."""
    parts = reads.groupBy("consumer", F.input_file_name().alias("file"), "topic", "partition")
    spans = parts.agg(
        F.min("position").alias("first"), F.max("position").alias("last"), F.count("*").alias("rows")
    )
    held: dict[int, list[Row]] = {}
    for row in spans.collect():
        held.setdefault(row["consumer"], []).append(row)
    return [c.consumer for c in clients if _is_lossy(run, c, held.get(c.consumer, []))]


def _is_lossy(run: Run, client: ConsumerClient, spans: list[Row]) -> bool:
    """spans: rows of a consumer by file, topic and partition, with their first and last number."""
    files: dict[str, tuple[int, int]] = {}
    for row in spans:
        first, last = files.get(row["file"], (row["first"], row["last"]))
        files[row["file"]] = min(first, row["first"]), max(last, row["last"])
    reached = -1
    for first, last in sorted(files.values()):
        if first > reached + 1:
            return True
        reached = max(reached, last)
    if client.delivered is not None and client.delivered > reached + 1:
        return True
    fewer = sum(row["rows"] for row in spans) < reached + 1
    return fewer and client.role == "drain" and _is_unread(run, client.topics, spans)


def _is_unread(run: Run, topics: list[str], spans: list[Row]) -> bool:
    """Whether a partition with records has no row at all."""
    seen = {(row["topic"], row["partition"]) for row in spans}
    return any(
        end.high_watermark > end.start_offset and (topic, int(partition)) not in seen
        for topic in topics
        for partition, end in run.ends.get(topic, {}).items()
    )

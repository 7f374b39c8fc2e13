"""V01 and V15 of the log's start: only retention, expiry and DeleteRecords may move it.

Settings are those of the topic in run.json; what is not named there is unlimited, as in every topic
of a load test.
"""

from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_validation.anomalies import findings
from spark_validation.checks.offsets import last_offsets
from spark_validation.evidence import Evidence
from spark_validation.segments import layout
from spark_validation.segments.ranges import partition_folders

UNLIMITED = -1
CHECKPOINT = "log-start-offset-checkpoint"
RECOVERY = "recovery-point-offset-checkpoint"
REPLICATION = "replication-offset-checkpoint"
BEYOND = {
    RECOVERY: "log ends below its recovery point",
    "cleaner-offset-checkpoint": "log ends below its cleaned offset",
    REPLICATION: "log ends below its checkpointed high watermark",
}
NEWEST = "log ends below its newest segment"
STORE = "kbroker.db"  # in the directories of a kbroker
AGES = ("retention.ms", "kbroker.record.ttl.ms")
SIZE = "retention.bytes"
NEVER = -(1 << 62)
LIMITS = (
    "topic string, partition int, start_offset bigint, deleted bigint, confirmed bigint, expired_ms bigint, "
    "kept_bytes bigint, by_size boolean"
)


def limits(evidence: Evidence) -> DataFrame:
    """A row a partition. deleted, confirmed: up to where DeleteRecords were asked for, and
    answered; expired_ms: older records may be gone; kept_bytes: what retention by size leaves, -1
    without it."""
    rows = []
    for topic in evidence.run.topics:
        policies = topic.config.get("cleanup.policy", topic.cleanup_policy).split(",")
        removes = "delete" in policies
        ages = [int(topic.config.get(name, UNLIMITED)) for name in AGES]
        age = min((each for each in ages if removes and each >= 0), default=UNLIMITED)
        size = int(topic.config.get(SIZE, UNLIMITED)) if removes else UNLIMITED
        for partition, end in evidence.run.ends.get(topic.name, {}).items():
            place = (topic.name, int(partition))
            requested = [d for d in evidence.run.deletions if (d.topic, d.partition) == place]
            deleted = max((d.offset for d in requested), default=0)
            confirmed = max((d.offset for d in requested if d.confirmed), default=0)
            expired = evidence.latest_ms - age if age >= 0 else NEVER
            rows.append((*place, end.start_offset, deleted, confirmed, expired, size, size >= 0))
    return evidence.table(rows, LIMITS)


def log_starts(evidence: Evidence) -> DataFrame:
    """V01 of acknowledged records that nothing allowed to remove; V15 of the starts themselves."""
    found = limits(evidence)
    if evidence.batches is not None:
        held = evidence.batches.groupBy("topic", "partition").agg(F.sum("size").alias("held_bytes"))
        found = found.join(held, ["topic", "partition"], "left")
    else:
        found = found.withColumn("held_bytes", F.col("kept_bytes"))
    held_bytes = F.coalesce("held_bytes", F.lit(0))
    found = found.withColumn("by_size", F.col("by_size") & (held_bytes >= F.col("kept_bytes")))
    moved = found.where("start_offset > deleted and not by_size")
    detail = F.concat_ws(" ", F.lit("the log starts at"), "start_offset", F.lit("deleted up to"), "deleted")
    return (
        findings(removed(evidence, moved), "V01", "below a log start that nothing allows", detail)
        .unionByName(
            findings(
                moved.where(F.col("expired_ms") == NEVER).withColumn("offset", F.col("start_offset")),
                "V15",
                "log start moved without a reason",
                detail,
            )
        )
        .unionByName(
            findings(
                found.where("start_offset < confirmed").withColumn("offset", F.col("start_offset")),
                "V15",
                "log start below a confirmed DeleteRecords",
                detail,
            )
        )
    )


def checkpointed(evidence: Evidence) -> DataFrame:
    """V15: the log directory's own file has a log start above that of the run, though nothing
    removes records by age or size, or above the log's end."""
    rows = [(*place, offset) for place, offset in checkpoint(evidence, CHECKPOINT).items()]
    named = evidence.table(rows, "topic string, partition int, offset bigint")
    still = F.expr("expired_ms") == NEVER
    ends = evidence.ends.select("topic", "partition", "high_watermark")
    above = limits(evidence).join(named, ["topic", "partition"]).join(ends, ["topic", "partition"])
    moved = still & ~F.col("by_size") & F.expr("offset > start_offset and offset > deleted")
    above = above.where(moved | F.expr("offset > high_watermark"))
    detail = F.concat_ws(" ", F.lit(f"{CHECKPOINT}, the run has"), "start_offset")
    return findings(above, "V15", "checkpoint above the log start", detail)


def synced(evidence: Evidence, digests: DataFrame) -> DataFrame:
    """V15: a log ends below its recovery point, so what was synced to disk is gone, or below what
    was cleaned, or replicated, or where its newest segment is to begin.

    kbroker has no checkpoint of high watermarks. The one of a directory that it took over from
    Apache Kafka stays as it was, also for a topic that is deleted and created again.
    """
    kept = evidence.run.broker == "kbroker" or any(
        (Path(data_dir) / STORE).exists() for data_dir in evidence.data_dirs
    )
    last = last_offsets(evidence, digests)
    rows = [
        (*place, offset, name, kind)
        for name, kind in BEYOND.items()
        if name != REPLICATION or not kept
        for place, offset in checkpoint(evidence, name).items()
    ]
    rows += rolled(evidence)
    schema = "topic string, partition int, synced bigint, name string, kind string"
    known = evidence.table(rows, schema)
    known = known.join(evidence.ends, ["topic", "partition"]).join(last, ["topic", "partition"], "left")
    known = known.withColumn("offset", F.greatest(F.coalesce(F.col("last") + 1, F.lit(0)), "start_offset"))
    detail = F.concat_ws(" ", "name", F.lit("has"), "synced")
    return findings(known.where("synced > offset"), "V15", F.col("kind"), detail)


def rolled(evidence: Evidence) -> list[tuple[str, int, int, str, str]]:
    """Topic, partition, base offset, name and kind of newest segments that hold nothing: the next
    record gets the offset in such a name. A cleaner may take the last records below it."""
    found = []
    names = evidence.topics()
    for folder, topic, partition in partition_folders(evidence.data_dirs, names) if names else ():
        segments = layout.segments_among(path.name for path in Path(folder).iterdir())
        path = Path(layout.segment_path(folder, segments[-1] if segments else 0, layout.LOG_FILE))
        if segments and path.exists() and not path.stat().st_size:
            high = evidence.run.ends.get(topic, {}).get(str(partition))
            if high is None or segments[-1] > high.high_watermark:
                found.append((topic, partition, segments[-1], path.name, NEWEST))
    return found


def checkpoint(evidence: Evidence, name: str) -> dict[tuple[str, int], int]:
    """(topic, partition) -> offset of a checkpoint of the log directories. Each says nothing of
    logs in others: a broker that was killed when it moved a log had not removed the old entry."""
    found: dict[tuple[str, int], int] = {}
    for data_dir in map(Path, evidence.data_dirs):
        offsets = offsets_in(data_dir / name)
        found |= {place: offsets[place] for place in offsets if (data_dir / "{}-{}".format(*place)).is_dir()}
    return found


def offsets_in(path: Path) -> dict[tuple[str, int], int]:
    """(topic, partition) -> offset of a checkpoint file; nothing without one."""
    return {place: offset for place, offset in entries_in(path) if place is not None}


def entries_in(path: Path) -> list[tuple[tuple[str, int] | None, int]]:
    """Entries of a checkpoint file, and (None, line) for each line that is no entry, or that of a
    partition which has one, or the one after the last where there are not as many as it says;
    nothing without the file, and of an empty one: Apache Kafka creates each at its start, and
    writes that of the cleaner when it has cleaned."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    if not content:
        return []
    lines = content.decode(errors="replace").splitlines()
    found: list[tuple[tuple[str, int] | None, int]] = []
    known = set()
    for n, line in enumerate(lines[2:], 2):
        parts = line.split()
        numbers = [int(part) for part in parts[1:] if part.isdecimal()]
        whole = len(parts) == 3 and len(numbers) == 2 and max(numbers) < layout.OFFSETS
        if whole and (parts[0], numbers[0]) not in known:
            known.add((parts[0], numbers[0]))
            found.append(((parts[0], numbers[0]), numbers[1]))
        elif parts:
            found.append((None, n))
    if lines[:2] != ["0", str(len(found))]:
        found.append((None, len(lines)))
    return found


def unreadable(evidence: Evidence) -> DataFrame:
    """V13: lines of the log directories' checkpoints that are no entries, or entries that they
    lack. Without place: such a file is of all partitions."""
    rows = [
        (n, name)
        for data_dir in evidence.data_dirs
        for name in (CHECKPOINT, *BEYOND)
        for place, n in entries_in(Path(data_dir) / name)
        if place is None
    ]
    frame = evidence.table(rows, "line int, name string")
    kind = F.concat_ws(" ", "name", F.lit("cannot be read"))
    return findings(frame, "V13", kind, F.concat_ws(" ", F.lit("line"), "line"))


def removed(evidence: Evidence, moved: DataFrame) -> DataFrame:
    """Acknowledged sends between what was deleted and the log's start that are not old enough to be
    gone."""
    if not any(end.start_offset for ends in evidence.run.ends.values() for end in ends.values()):
        return evidence.table([], "topic string, start_offset bigint, deleted bigint")
    aged = F.when(F.col("topic").isin(evidence.append_time_topics), F.col("acked_ns") / 1_000_000).otherwise(
        F.col("timestamp_ms")
    )
    near = evidence.acked.join(F.broadcast(moved), ["topic", "partition"])
    return near.where(
        (F.col("offset") < F.col("start_offset")) & (F.col("offset") >= F.col("deleted"))
    ).where(aged > F.col("expired_ms"))

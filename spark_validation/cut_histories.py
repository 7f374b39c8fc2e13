"""Histories that lack rows, by their own account: rows are numbered, and clients that ended counted
them.

What is absent from such a history is no proof.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_validation.evidence import Evidence

STARTS_NS = 1_000_000_000  # a share group's start lies at its first fetch
KILLED_NS = 30_000_000_000  # a killed producer loses the rows of its last seconds, not more
LACKING = "are missing, or there twice"


def unnumbered(evidence: Evidence) -> list[str]:
    """Reasons by what numbers and counts say of the histories of clients."""
    return [
        *cut_files(evidence),
        *cut_off_sends(evidence),
        *cut_off_killed(evidence),
        *cut_off_transactions(evidence),
        *cut_off_reads(evidence),
        *without_rows(evidence),
    ]


def cut_files(evidence: Evidence) -> list[str]:
    """Files that their clients numbered, and counted."""
    return [
        f"files of {kind} are missing, of clients: {_listed(numbers)}"
        for kind, numbers in evidence.cut.items()
    ]


def cut_off_sends(evidence: Evidence) -> list[str]:
    """Producers that ended by themselves, so that every record has an outcome, and whose rows have
    gaps."""
    topics = {topic.name for topic in evidence.run.topics}
    ended = [p.producer for p in evidence.producer_clients if p.ended_ns is not None and p.topic in topics]
    if not ended:
        return []
    rows = evidence.rows("sends").where(F.col("producer").isin(ended))
    counts = [(p.producer, p.attempted) for p in evidence.producer_clients if p.ended_ns is not None]
    attempted = evidence.table(counts, "producer int, attempted bigint")
    held = rows.groupBy("producer").agg(
        F.count("*").alias("rows"), F.countDistinct("seq").alias("seqs"), F.max("seq").alias("last")
    )
    begun = evidence.intents.where(F.col("producer").isin(ended))
    begun = begun.groupBy("producer").agg(F.max("first_seq").alias("begun"))
    both = begun.join(held, "producer", "full").join(attempted, "producer", "left")
    gaps = both.where(
        "rows is null or rows != seqs or seqs != last + 1 or begun > last or attempted != last + 1"
    )
    return named(gaps, "producer", f"sends of producers that ended by themselves {LACKING}")


def cut_off_killed(evidence: Evidence) -> list[str]:
    """Producers that were killed, and of which the log has records from long after their last
    row."""
    killed = [(p.producer, p.started_ns) for p in evidence.producer_clients if p.ended_ns is None]
    if not killed:
        return []
    frame = evidence.table(killed, "producer int, started_ns bigint")
    known = evidence.rows("sends").join(F.broadcast(frame), "producer", "left_semi")
    known = known.groupBy("producer").agg(F.max("sent_ns").alias("known_ns"))
    wrote = evidence.log.where(F.col("intact")).join(F.broadcast(frame), "producer", "left_semi")
    wrote = wrote.groupBy("producer").agg(F.max("intended_ns").alias("wrote_ns"))
    both = wrote.join(frame, "producer").join(known, "producer", "left")
    late = both.where(F.col("wrote_ns") - F.coalesce("known_ns", "started_ns") > KILLED_NS)
    what = "sends of killed producers are missing, and of more than their last seconds"
    return named(late.select("producer").unionByName(cut_within(evidence)).distinct(), "producer", what)


def cut_within(evidence: Evidence) -> DataFrame:
    """producer of those that were killed and lack rows before others: an idempotent one hears of
    the records of a partition in their order, so only the last ones can be lost with it."""
    killed = [p.producer for p in evidence.producer_clients if p.ended_ns is None and p.idempotent]
    rows = evidence.rows("sends").where(F.col("producer").isin(killed))
    held = rows.groupBy("producer", "partition").agg(
        F.countDistinct("partition_seq").alias("rows"), F.max("partition_seq").alias("last")
    )
    return held.where("rows <> last + 1").select("producer")


def cut_off_transactions(evidence: Evidence) -> list[str]:
    """Producers that ended by themselves, whose transactions, numbered from 0 on, have gaps."""
    topics = {topic.name for topic in evidence.run.topics}
    ended = [
        p.producer
        for p in evidence.producer_clients
        if p.ended_ns is not None and p.transactional_id and p.topic in topics
    ]
    if not ended:
        return []
    own = F.col("producer").isin(ended)
    rows = evidence.rows("transactions").where(own).groupBy("producer")
    held = rows.agg(
        F.countDistinct("transaction").alias("rows"),
        F.count("*").alias("counted"),
        F.max("transaction").alias("last"),
    )
    sent = evidence.rows("sends").where(own).where("transaction >= 0").groupBy("producer")
    both = held.join(sent.agg(F.max("transaction").alias("sent")), "producer", "full")
    gaps = both.where("rows is null or counted != rows or rows != last + 1 or sent > last")
    return named(gaps, "producer", f"transactions of producers that ended by themselves {LACKING}")


def cut_off_reads(evidence: Evidence) -> list[str]:
    """Consumers whose deliveries, which they number from 0 on, have gaps."""
    held = (
        evidence.rows("reads", every_topic=True)
        .groupBy("consumer")
        .agg(
            F.countDistinct("position").alias("rows"),
            F.count("*").alias("counted"),
            F.max("position").alias("last"),
        )
    )
    counts = [(c.consumer, c.delivered) for c in evidence.consumer_clients if c.delivered]
    ended = evidence.table(counts, "consumer int, delivered bigint")
    both = held.join(ended, "consumer", "full")
    gaps = both.where("rows is null or counted != rows or rows != last + 1 or delivered != rows")
    return named(gaps, "consumer", f"deliveries of consumers {LACKING}")


def without_rows(evidence: Evidence) -> list[str]:
    """Clients and groups of which a whole kind of history is missing."""
    found = []
    if silent := evidence.unannounced:
        sent = evidence.rows("sends").where(F.col("producer").isin(silent)).select("producer").distinct()
        found += named(sent, "producer", "no intent is recorded of what was sent by producers")
    if groups := evidence.uncommitted_groups:
        found.append(f"no commit is recorded of the groups: {_listed(groups)}")
    if copiers := evidence.uncopied_producers:
        found.append(f"no copy is recorded of producers: {_listed(copiers)}")
    found += unassigned(evidence)
    if shared := unshared(evidence):
        found.append(f"no delivery is recorded of the share groups: {_listed(shared)}")
    held = {
        topic
        for topic, ends in evidence.run.ends.items()
        if any(end.high_watermark > end.start_offset for end in ends.values())
    }
    for kind, what in (("sends", "send"), ("reads", "delivered record")):
        known = {row["topic"] for row in evidence.rows(kind).select("topic").distinct().collect()}
        if missing := sorted(held - known):
            found.append(f"no {what} is recorded of: {_listed(missing)}")
    return found


def unassigned(evidence: Evidence) -> list[str]:
    """Consumers that were given records in an assignment that has no row."""
    ended = [c.consumer for c in evidence.consumer_clients if c.group and c.ended_ns is not None]
    key = ["consumer", "assignment", "topic", "partition"]
    reads = evidence.reads.where(F.col("consumer").isin(ended) & (F.col("assignment") >= 0))
    known = evidence.rows("assignments").where("event = 0").select(*key)
    strange = reads.select(*key).distinct().join(known, key, "left_anti")
    return named(strange.select("consumer").distinct(), "consumer", "assignments of consumers are missing")


def unshared(evidence: Evidence) -> list[str]:
    """Share groups without a delivery, though records were acknowledged while their members
    read."""
    sharing = [c for c in evidence.consumer_clients if c.role == "share" and c.group and c.finished]
    if not sharing:
        return []
    known = {row["group"] for row in evidence.rows("shares").select("group").distinct().collect()}
    missing = set()
    for c in sharing:
        if c.group in known or c.group is None:
            continue
        late = evidence.sends.where(F.col("topic").isin(c.topics) & (F.col("status") == 0))
        if not late.where(F.col("sent_ns") > c.started_ns + STARTS_NS).isEmpty():
            missing.add(c.group)
    return sorted(missing)


def _listed(names: list[int] | list[str]) -> str:
    return ", ".join(map(str, names[:5])) + (" ..." if len(names) > 5 else "")


def named(frame: DataFrame, column: str, what: str) -> list[str]:
    """The reason with the first clients of a frame, none when it is empty."""
    found = [row[column] for row in frame.select(column).orderBy(column).limit(6).collect()]
    return [f"{what}: {_listed(found)}"] if found else []

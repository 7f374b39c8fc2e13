"""V19 of topics whose records share groups get later: `kbroker.delivery.delay.ms` (docs/queues.md).

A header of a record may set another time, so a delivery is judged of records without headers. The
broker goes by the clock of the wall, the clients by a monotonic one.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_validation.anomalies import findings
from spark_validation.evidence import Evidence

SETTING = "kbroker.delivery.delay.ms"
LONGEST_MS = 7 * 86_400_000
SLACK_MS = 1000
EARLY = "delivered before its delay had passed"


def delays(evidence: Evidence) -> dict[str, int]:
    """Topic -> delay in ms, of those that may delay a record."""
    found = {topic.name: int(topic.config.get(SETTING, -1)) for topic in evidence.run.topics}
    return {name: min(delay, LONGEST_MS) for name, delay in found.items() if delay >= 0}


def due_ms(evidence: Evidence) -> Column:
    """The time at which a record is due, by its topic's setting; null where nothing delays it."""
    due = F.lit(None).cast("bigint")
    for topic, delay in delays(evidence).items():
        stamped = (F.col("topic") == topic) & (F.col("timestamp_ms") > 0)
        due = F.when(stamped, F.col("timestamp_ms") + delay).otherwise(due)
    return due


def early(evidence: Evidence) -> DataFrame:
    """V19: records that a member had before they were due."""
    rows = evidence.rows("shares").withColumn("due_ms", due_ms(evidence))
    plain = F.coalesce("header_sum", F.lit(0)) == 0
    before = F.col("acquired_ns") / 1_000_000 + SLACK_MS < F.col("due_ms")
    detail = F.concat_ws(" ", F.lit("due at ms"), "due_ms", F.lit("acquired at ns"), "acquired_ns")
    return findings(rows.where(plain & before), "V19", EARLY, detail, not evidence.clock_moved)

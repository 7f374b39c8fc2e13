"""V11 of fenced producers: what the broker took from one life of a transactional id when a later
life had begun.

A life begins a transaction when its InitProducerId was answered: everything that earlier lives ask
for afterwards is refused.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_validation.anomalies import findings
from spark_validation.checks.transactions import COMMITTED
from spark_validation.evidence import IDENTITY, PLACE, Evidence


def fenced(evidence: Evidence) -> DataFrame | None:
    """producer, fenced_ns of lives whose transactional id had a later one; None when none had."""
    lives = [
        (p.producer, p.transactional_id, p.started_ns)
        for p in evidence.producer_clients
        if p.transactional_id is not None
    ]
    names = [name for _, name, _ in lives]
    if len(names) == len(set(names)):
        return None
    schema = "producer int, name string, started_ns bigint"
    frame = evidence.table(lives, schema)
    begun = evidence.rows("transactions").groupBy("producer").agg(F.min("begin_ns").alias("begin_ns"))
    later = frame.join(begun, "producer").select("name", F.col("started_ns").alias("later_ns"), "begin_ns")
    both = frame.join(later, "name").where("later_ns > started_ns")
    return F.broadcast(both.groupBy("producer").agg(F.min("begin_ns").alias("fenced_ns")))


def accepted_after_fencing(evidence: Evidence) -> DataFrame | None:
    """V11: records that were acknowledged or written, and transactions that were committed, though
    their producer was fenced before it asked. None when no transactional id had two lives."""
    since = fenced(evidence)
    if since is None:
        return None
    sends = evidence.sends.where("status = 0").join(since, "producer")
    late = sends.where(F.col("sent_ns") > F.col("fenced_ns") + evidence.stepped_ns)
    ended = evidence.rows("transactions").where(F.col("outcome") == COMMITTED).join(since, "producer")
    ended = ended.where(F.col("ending_ns") > F.col("fenced_ns") + evidence.stepped_ns)
    ended = ended.select("producer", F.col("first_seq").alias("seq"), "fenced_ns").join(
        evidence.sends.select("producer", "seq", "topic", "partition", "offset"), ["producer", "seq"], "left"
    )
    detail = F.concat_ws(" ", F.lit("fenced at ns"), "fenced_ns")
    found = findings(late, "V11", "acknowledged when its producer was fenced", detail)
    found = found.unionByName(findings(ended, "V11", "committed when its producer was fenced", detail))
    written = findings(unanswered(evidence, since), "V11", "written when its producer was fenced", detail)
    return found.unionByName(written)


def unanswered(evidence: Evidence, since: DataFrame) -> DataFrame:
    """PLACE, IDENTITY, fenced_ns of records in the log that were sent when their producer was
    fenced, and whose sends have no answer. since: of `fenced`."""
    held = evidence.unanswered.join(since, "producer")
    late = held.where(F.col("sent_ns") > F.col("fenced_ns") + evidence.stepped_ns)
    return late.select(*PLACE, *IDENTITY, "fenced_ns").dropDuplicates([*PLACE, *IDENTITY])

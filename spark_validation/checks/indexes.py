"""V13 index: entries of the offset and time indexes against their segment's batches."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_validation.anomalies import findings
from spark_validation.checks.retention import AGES, SIZE
from spark_validation.evidence import Evidence
from spark_validation.segments.frame import segment_frame
from spark_validation.segments.index_check import BEGINS_LATE, ENDS_BELOW, ENDS_OTHERWISE
from spark_validation.segments.index_files import EMPTY

BROKERS = ("kbroker", "kafka")  # of which it is known that they index every aborted transaction


def indexes(evidence: Evidence) -> DataFrame:
    """V13 of every segment of the run's topics."""
    names = ",".join(topic.name for topic in evidence.run.topics)
    options = {"path": ",".join(evidence.data_dirs), "topics": names, "rows": "indexes"}
    options["indexed"] = str(evidence.run.broker in BROKERS).lower()
    problems = segment_frame(evidence.spark, options)
    # a cleaner leaves a segment's name as it was, and indexes several batches by one entry
    of_cleaner = F.lit(False)
    for problem in ("above the offset", ENDS_OTHERWISE, ENDS_BELOW):
        of_cleaner |= F.col("problem").contains(problem)
    cleaned = F.col("topic").isin(evidence.topics(compacted=True)) & of_cleaner
    # where something moves the log's start, the checkpoint begins there, within a segment
    ends = evidence.ends.where("start_offset = 0").select("topic", "partition", F.lit(True).alias("whole"))
    still = [topic.name for topic in evidence.run.topics if not {*AGES, SIZE} & {*topic.config}]
    problems = problems.join(ends, ["topic", "partition"], "left")
    whole = F.col("whole").isNotNull() & F.col("topic").isin(still)
    problems = problems.where(~cleaned & (whole | ~F.col("problem").contains(BEGINS_LATE)))
    if evidence.faults or evidence.faults_missing:  # a full disk, or many starts, may leave entries out
        problems = problems.where(~F.col("problem").endswith(EMPTY))
    kind = F.concat_ws(" ", F.col("file"), F.regexp_replace("problem", r"\d+", "N"))
    detail = F.concat_ws(" ", F.lit("segment"), "segment", F.lit("entry"), "entry", "problem")
    return findings(problems, "V13", kind, detail)

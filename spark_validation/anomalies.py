"""The anomalies by number and name, and the format of findings. docs/validation.md defines them."""

from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F


class Anomaly(NamedTuple):
    id: str
    name: str
    means: str


ANOMALIES = (
    Anomaly(
        "V01",
        "lost",
        "an acknowledged record is not in the log, or not visible though its transaction committed",
    ),
    Anomaly(
        "V02", "misplaced", "the log holds another record at the acknowledged offset, or an altered value"
    ),
    Anomaly("V03", "diverged", "a consumer was given something else than the log holds at that offset"),
    Anomaly("V04", "duplicate", "one record at two offsets although its producer is idempotent"),
    Anomaly("V05", "phantom", "a record in the log that nobody sent, or whose send surely failed"),
    Anomaly("V06", "order", "in offset order a producer's records of a partition, or of a key, step back"),
    Anomaly(
        "V07",
        "batch chain",
        "batch headers: offsets, counts, checksum, or idempotence's sequence numbers do not chain",
    ),
    Anomaly(
        "V08",
        "consumer order",
        "inside one assignment a consumer skipped a record, got one again, or went back",
    ),
    Anomaly("V09", "redelivery", "a committed offset went back, or delivery began below it"),
    Anomaly("V10", "unread", "a consumer that read to the end was not given a record there"),
    Anomaly("V11", "aborted read", "read_committed showed a record of an aborted or still open transaction"),
    Anomaly("V12", "exactly once", "an input record has not exactly one committed copy"),
    Anomaly("V13", "index", "an index entry points to no batch start, or entries are not in order"),
    Anomaly("V14", "restart prefix", "an earlier copy of the log is not what the log holds now"),
    Anomaly("V15", "hole", "offsets are missing inside the log although nothing may remove them"),
    Anomaly("V16", "compaction", "a compacted topic lost the last value of a key, or changed a survivor"),
    Anomaly(
        "V17",
        "visibility lag",
        "a record was delivered later after its acknowledgement than the limit allows",
    ),
    Anomaly("V18", "latency", "a percentile of ack or end-to-end latency is above its limit"),
    Anomaly(
        "V19",
        "share delivery",
        "a share group was given a record that was accepted or rejected, that another member held, or too often",
    ),
    Anomaly(
        "V20",
        "real time",
        "a record lies below one that was done before it was sent, or a later read ended below it",
    ),
)
NAMES = {anomaly.id: anomaly.name for anomaly in ANOMALIES}

# Every check gives a frame of these columns, a row a finding; what does not apply is null.
FINDING = {
    "anomaly": "string",
    "kind": "string",
    "convicts": "boolean",  # false: counted and shown, the verdict stays
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "producer": "int",
    "seq": "bigint",
    "consumer": "int",
    "detail": "string",
}


def findings(
    frame: DataFrame,
    anomaly: str | Column,
    kind: str | Column,
    detail: Column,
    convicts: Column | bool = True,
) -> DataFrame:
    """Rows of a check as findings. Columns of FINDING that the frame has are taken over."""
    fixed = {
        "anomaly": F.lit(anomaly) if isinstance(anomaly, str) else anomaly,
        "kind": F.lit(kind) if isinstance(kind, str) else kind,
        "convicts": F.lit(convicts) if isinstance(convicts, bool) else convicts,
        "detail": detail,
    }
    columns = []
    held = {*frame.columns}  # each time they are asked for, Java is asked for one after the other
    for name, type_ in FINDING.items():
        source = fixed.get(name, F.col(name) if name in held else F.lit(None))
        columns.append(source.cast(type_).alias(name))
    return frame.select(*columns)


def kinds(frame: DataFrame, conditions: dict[str, Column]) -> DataFrame:
    """A row for each condition that holds of a row, with its name in the column `kind`."""
    named = [F.when(condition, F.lit(kind)) for kind, condition in conditions.items()]
    return frame.withColumn("kind", F.explode(F.array_compact(F.array(*named))))

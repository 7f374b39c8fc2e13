"""The histories of a load test: what was attempted, what was acknowledged, what was seen. The
contract with the judge of a run; docs/histories.md has the same in prose.

A run is a folder:

    run.json                        loadtest/run.py: Run (topics, settings, ends of the logs, clocks)
    clients/<writer>.json           loadtest/run.py: ProducerClient, ConsumerClient; written before its first request
    intents/<writer>.jsonl          {"producer", "first_seq", "last_seq", "at_ns"}: written before the first send of it
    faults.jsonl                    {"fault", "target", "begin_ns", "end_ns", "outcome", "detail"}
    <kind>/<writer>-<number>.parquet   one folder a kind: sends, transactions, copies, reads, commits, assignments

`<writer>` is `p000012` (producer 12) or `c000007` (consumer 7). A file is written as `.<name>.part`, flushed, and
renamed when its footer is complete: whatever has the name `*.parquet` is whole, and readers that
skip dot files (Spark does) never see half a file. Files are closed every ROLL_SECONDS or ROLL_ROWS,
so the death of a client and of its history process loses at most that much of what it knew; what is
lost that way is unknown, never wrong:

- a sequence number inside an intent that has no row in `sends`: attempted perhaps, outcome unknown;
- a record of the log that no consumer's rows hold: not seen, or seen by a consumer whose last rows
  are gone.

Rows of one writer are in the order of events: in `sends` that of the delivery reports, in `reads`
that of delivery (`position` counts it). All times ending in _ns are nanoseconds since the epoch, of
the machine that wrote the row.
"""

from enum import IntEnum

import pyarrow as pa

FORMAT = 1
ROLL_SECONDS = 5
ROLL_ROWS = 1_000_000
UNKNOWN_START = -1002  # of an assignment: its committed offset was asked for, and no answer came


class SendStatus(IntEnum):
    """Outcome of a record, as the client knows it."""

    ACKED = 0  # the broker acknowledged it: partition, offset and timestamp are the broker's
    FAILED = 1  # surely not in the log: refused, or purged from the client's queue before it was sent
    UNKNOWN = 2  # may be in the log or not: timed out, connection lost, purged in flight


class TransactionOutcome(IntEnum):
    COMMITTED = 0
    ABORTED = 1
    UNKNOWN = 2  # commit or abort raised, or the client died: either outcome is right, but only one of them


class ShareAck(IntEnum):
    """The acknowledgement of a record by a member of a share group."""

    NOTHING = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3


class AssignmentEvent(IntEnum):
    ASSIGNED = 0
    REVOKED = 1
    LOST = 2


# One attempted record. A record of acks=0 has status ACKED and offset -1.
SENDS = pa.schema(
    [
        ("producer", pa.int32()),
        ("seq", pa.int64()),
        ("partition_seq", pa.int64()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),  # -1 unless acknowledged
        ("timestamp_ms", pa.int64()),  # the record's timestamp; -1 when unknown
        ("key", pa.int32()),
        ("status", pa.int8()),  # SendStatus
        ("error", pa.int16()),  # Kafka's error code, or librdkafka's (negative); 0 is none
        ("transaction", pa.int64()),  # the producer's transaction it belongs to; -1 outside
        ("intended_ns", pa.int64()),  # from the schedule
        ("sent_ns", pa.int64()),  # before it is given to the client library
        ("acked_ns", pa.int64()),  # after the delivery report
        ("header_sum", pa.int64()),  # loadtest.record.header_sum of its headers; null or 0: it has none
        ("tombstone", pa.bool_()),  # it has no value; null: it has one
    ]
)

# One transaction of a producer; its records are those of `sends` with its number. A row exists once
# it has ended.
TRANSACTIONS = pa.schema(
    [
        ("producer", pa.int32()),
        ("transaction", pa.int64()),  # 0, 1, 2 ... per producer
        ("first_seq", pa.int64()),
        ("last_seq", pa.int64()),  # first_seq - 1: no record
        ("outcome", pa.int8()),  # TransactionOutcome
        ("meant", pa.int8()),  # TransactionOutcome the producer wanted
        ("error", pa.int16()),
        ("begin_ns", pa.int64()),
        ("ending_ns", pa.int64()),  # commit or abort was requested: read_committed shows no record before
        ("end_ns", pa.int64()),  # and had returned
    ]
)

# Consume-transform-produce: the output record (producer, seq) was made from this input record; the
# input's offset was sent to the group inside the same transaction.
COPIES = pa.schema(
    [
        ("producer", pa.int32()),
        ("seq", pa.int64()),
        ("transaction", pa.int64()),
        ("group", pa.string()),
        ("input_topic", pa.string()),
        ("input_partition", pa.int32()),
        ("input_offset", pa.int64()),
    ]
)

# One record delivered to a consumer. A value that is not ours has producer, seq and partition_seq
# -1.
READS = pa.schema(
    [
        ("consumer", pa.int32()),
        ("position", pa.int64()),  # 0, 1, 2 ... per consumer: order of delivery
        (
            "assignment",
            pa.int32(),
        ),  # ordinal of the consumer's assignment (see ASSIGNMENTS); -1: assigned by hand
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("key", pa.int32()),  # -1: not a key of a load test
        ("producer", pa.int32()),
        ("seq", pa.int64()),
        ("partition_seq", pa.int64()),
        ("flags", pa.int8()),  # of the value's header
        ("intact", pa.bool_()),  # checksum right, and the value is of this run
        ("intended_ns", pa.int64()),
        ("seen_ns", pa.int64()),  # when the poll that brought it returned
        ("header_sum", pa.int64()),  # of the headers that it came with; null or 0: it has none
    ]
)

# One commit of offsets that a consumer (or a transaction of a copier) asked for, a row per
# partition.
COMMITS = pa.schema(
    [
        ("consumer", pa.int32()),
        ("group", pa.string()),
        ("assignment", pa.int32()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),  # next offset to read
        ("error", pa.int16()),  # 0: the broker confirmed it; else refused or unknown
        ("asked_ns", pa.int64()),
        ("answered_ns", pa.int64()),
        (
            "transaction",
            pa.int64(),
        ),  # -1 outside; else of the copier's producer: counts only if that was committed
        ("producer", pa.int32()),  # the copier's producer; -1 outside
    ]
)

# A consumer was given a partition, or had to give it back.
ASSIGNMENTS = pa.schema(
    [
        ("consumer", pa.int32()),
        ("group", pa.string()),
        ("assignment", pa.int32()),  # 0, 1, 2 ... per consumer; grows with each ASSIGNED event
        ("event", pa.int8()),  # AssignmentEvent
        ("topic", pa.string()),
        ("partition", pa.int32()),
        (
            "start_offset",
            pa.int64(),
        ),  # ASSIGNED: committed offset it begins at; -1001: none, see the reset policy; UNKNOWN_START
        ("at_ns", pa.int64()),
    ]
)

# One record that a member of a share group was given, and how it acknowledged it.
SHARES = pa.schema(
    [
        ("consumer", pa.int32()),
        ("group", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("delivery", pa.int32()),  # delivery count, 1 at first; -1: not known
        ("timestamp_ms", pa.int64()),
        ("key", pa.int32()),
        ("producer", pa.int32()),
        ("seq", pa.int64()),
        ("partition_seq", pa.int64()),
        ("flags", pa.int8()),
        ("intact", pa.bool_()),
        ("intended_ns", pa.int64()),
        ("header_sum", pa.int64()),
        ("acquired_ns", pa.int64()),  # when the poll that brought it returned
        ("ack", pa.int8()),  # ShareAck
        ("error", pa.int16()),  # of the acknowledgement; 0: the broker confirmed it
        ("asked_ns", pa.int64()),
        ("answered_ns", pa.int64()),
    ]
)

KINDS: dict[str, pa.Schema] = {
    "sends": SENDS,
    "transactions": TRANSACTIONS,
    "copies": COPIES,
    "reads": READS,
    "commits": COMMITS,
    "assignments": ASSIGNMENTS,
    "shares": SHARES,
}


def writer_name(role: str, number: int) -> str:
    """`p000012` or `c000007`."""
    return f"{role[0]}{number:06d}"

"""Requests that name topics without partitions, and topics that a transaction cannot have, answered
as Apache Kafka 4.3.1 does. They build on the topics of `admin_cases`."""

from kbroker.protocol.api_keys import ApiKey as K
from kbroker.protocol.messages import add_partitions_to_txn as ap
from kbroker.protocol.messages import alter_partition_reassignments as apr
from kbroker.protocol.messages import delete_records as dr
from kbroker.protocol.messages import list_offsets as lo
from kbroker.protocol.messages import txn_offset_commit as toc
from tests.compat.raw import Case, case


def joins(*topics: tuple[str, list[int]]) -> ap.AddPartitionsToTxnRequest:
    """Of a transaction that no producer has begun."""
    return ap.AddPartitionsToTxnRequest("t", 1, 0, [ap.AddPartitionsToTxnTopic(*each) for each in topics])


def commits(*topics: tuple[str, list[int]]) -> toc.TxnOffsetCommitRequest:
    requested = [
        toc.TxnOffsetCommitRequestTopic(
            name, [toc.TxnOffsetCommitRequestPartition(index, 1, -1, None) for index in partitions]
        )
        for name, partitions in topics
    ]
    return toc.TxnOffsetCommitRequest("t", "g", 1, 0, -1, "", None, requested)


NO_PARTITIONS = [apr.ReassignableTopic("one")]

JOINS: list[tuple[tuple[str, list[int]], ...]] = [
    (("__consumer_offsets", [0]),),
    (("one", [0]), ("__transaction_state", [0, 0])),
    (("one", [9, 0, 9]), ("absent", [0]), ("two", []), ("one", [0, 1])),
]

EMPTY_TOPICS: list[Case] = [
    case("delete records of topics without partitions", K.DELETE_RECORDS, (0, 2), dr.DeleteRecordsRequest(
        [dr.DeleteRecordsTopic("one"), dr.DeleteRecordsTopic("absent"),
         dr.DeleteRecordsTopic("two", [dr.DeleteRecordsPartition(9, 0)])], 10_000)),
    case("offsets of topics without partitions", K.LIST_OFFSETS, (1, 11), lo.ListOffsetsRequest(-1, 0, [
        lo.ListOffsetsTopic("one"), lo.ListOffsetsTopic("absent"),
        lo.ListOffsetsTopic("two", [lo.ListOffsetsPartition(0, -1, -1)])], 1000)),
    *(
        case(f"reassign nothing, {may}", K.ALTER_PARTITION_REASSIGNMENTS, (0, 1),
             apr.AlterPartitionReassignmentsRequest(1000, may, NO_PARTITIONS[:count]), same_text=True)
        for may in (True, False)
        for count in (0, 1)
    ),
    *(
        case(f"add {topics}", K.ADD_PARTITIONS_TO_TXN, (0, 3), joins(*topics))
        for topics in JOINS
    ),
    case("offsets of absent topics", K.TXN_OFFSET_COMMIT, (0, 5),
         commits(("absent", []), ("one", []), ("nothing", [0])), settles=True),
]  # fmt: skip

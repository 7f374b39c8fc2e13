"""The tables of a network process, and the kernels that read and write one row of them.

May be called by every room of net; imports none of them. Runs in each network process.
"""

from kbroker.net.rows.answer_tables import Answer, AnswerTable
from kbroker.net.rows.context import Context, Outcome, Phase, Run
from kbroker.net.rows.fetch_tables import (
    Box,
    BoxPart,
    Part,
    Plan,
    Read,
    ReadEnd,
    Segment,
    Session,
    SessionEntry,
)
from kbroker.net.rows.tables import (
    Chunk,
    Connection,
    Event,
    EventKind,
    Flag,
    Handed,
    PartialRecord,
    Partition,
    RecordPhase,
    Request,
    Result,
    ResultState,
    Token,
    Topic,
    Worker,
    signed,
)
from kbroker.net.rows.versions import (
    EpochVersion,
    FetchVersion,
    ListOffsetsVersion,
    MetadataVersion,
    ProducerIdVersion,
    ProduceVersion,
)

__all__ = [
    "Answer",
    "AnswerTable",
    "Box",
    "BoxPart",
    "Chunk",
    "Connection",
    "Context",
    "EpochVersion",
    "Event",
    "EventKind",
    "FetchVersion",
    "Flag",
    "Handed",
    "ListOffsetsVersion",
    "MetadataVersion",
    "Outcome",
    "Part",
    "PartialRecord",
    "Partition",
    "Phase",
    "Plan",
    "ProduceVersion",
    "ProducerIdVersion",
    "Read",
    "ReadEnd",
    "RecordPhase",
    "Request",
    "Result",
    "ResultState",
    "Run",
    "Segment",
    "Session",
    "SessionEntry",
    "Token",
    "Topic",
    "Worker",
    "signed",
]

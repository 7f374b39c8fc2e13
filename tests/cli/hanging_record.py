"""Leaves an open transaction that no coordinator knows at the end of a partition:
``python -m tests.cli.hanging_record PORT TOPIC PARTITION``.

A broker that does not verify partitions appends a record of a transaction that was never begun.
"""

import sys
from typing import Any

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kbroker.protocol.records import build_batch
from tests.compat.raw import SocketPeer
from tests.compat.transaction_talk import TransactionTalk

VERSION = 11
"""The last one with which a producer adds partitions to its transaction by a request of their
own."""


def append(port: int, topic: str, partition: int) -> int:
    """The offset of the record."""
    talk = TransactionTalk(SocketPeer(port), "hanging")
    talk.find_transaction_coordinator()
    producer = talk.init("init")
    batch = build_batch([(b"k", b"v", (), 1_700_000_000_000)], producer=(*producer, 0), transactional=True)
    data = TopicProduceData(topic, partition_data=[PartitionProduceData(partition, batch)])
    request = ProduceRequest(talk.group("t"), -1, 10_000, [data])
    answer: Any = talk.settled("record", ApiKey.PRODUCE, VERSION, request)
    talk.close()
    (done,) = answer.responses[0].partition_responses
    assert done.error_code == 0, done
    return int(done.base_offset)


if __name__ == "__main__":
    append(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))

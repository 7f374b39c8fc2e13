"""How far share groups have come: start offset and lag as members finish records, and how many
records they hold at most."""

import time
from collections.abc import Callable
from typing import Any

from kbroker.control.metadata.topic_name import SHARE_GROUP_STATE
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kbroker.protocol.schema import ZERO_UUID
from tests.compat.group_talk import Talk
from tests.compat.share_portion_scripts import member
from tests.compat.share_scripts import begin, offsets, produce
from tests.compat.share_talk import ShareMember

ACCEPT, RELEASE, REJECT = 1, 2, 3


def progress(talk: Talk) -> None:
    """The start offset is that of the last written change: it follows one acknowledgement later."""
    group, topic, topic_id = begin(talk)
    a = member(talk, group, topic_id)
    offsets(talk, group, topic)
    produce(talk, "t", 10, 10, 10, 10)
    a.fetch("all", topic_id, (), max_records=40)
    offsets(talk, group, topic)
    for first, last, kind in (
        (0, 4, ACCEPT),
        (5, 9, ACCEPT),
        (12, 14, ACCEPT),
        (10, 11, REJECT),
        (20, 29, RELEASE),
        (15, 19, ACCEPT),
    ):
        a.acknowledge(f"{first}-{last}: {kind}", topic_id, [(first, last, [kind])])
        offsets(talk, group, topic)
    a.fetch("again", topic_id, ())
    a.fetch("with acknowledgements", topic_id, (0,), [(20, 24, [ACCEPT]), (25, 29, [ACCEPT])])
    offsets(talk, group, topic)
    a.acknowledge("the last", topic_id, [(30, 39, [ACCEPT])])
    offsets(talk, group, topic)
    produce(talk, "t", 2)
    offsets(talk, group, topic)
    a.fetch("two more", topic_id, ())
    a.acknowledge("closes", topic_id, [(40, 40, [ACCEPT])], epoch=-1)
    time.sleep(0.5)
    offsets(talk, group, topic)
    a.close()


def held(talk: Talk) -> None:
    """A partition's records in flight are limited in whole batches; then nothing new is
    acquired."""
    group, _, topic_id = begin(talk, share_partition_max_record_locks="100")
    a = member(talk, group, topic_id)
    produce(talk, "t", *[30] * 12)
    a.fetch("up to the limit", topic_id, ())
    a.fetch("none is left", topic_id, ())
    a.acknowledge("some in the middle", topic_id, [(40, 79, [ACCEPT])])
    a.fetch("after those", topic_id, ())
    a.acknowledge("the first", topic_id, [(0, 9, [ACCEPT])])
    a.fetch("after the first", topic_id, ())
    a.acknowledge("released", topic_id, [(10, 39, [RELEASE])])
    a.fetch("released ones", topic_id, (), max_records=5)
    a.fetch("the rest", topic_id, ())
    a.acknowledge("the rest of the first four", topic_id, [(10, 39, [ACCEPT]), (80, 119, [ACCEPT])])
    a.fetch("the next", topic_id, (), max_records=50)
    a.fetch("and more", topic_id, (), max_records=500, batch_size=10)
    a.close()


def held_strictly(talk: Talk) -> None:
    """The same with a strict limit of records (v2)."""
    group, _, topic_id = begin(talk, share_partition_max_record_locks="100")
    a = member(talk, group, topic_id)
    produce(talk, "t", 250, 30)
    for number in range(3):
        a.fetch(f"strict {number}", topic_id, (), max_records=60, version=2, share_acquire_mode=1)
    a.acknowledge("some", topic_id, [(10, 19, [ACCEPT])])
    a.fetch("strict again", topic_id, (), max_records=60, version=2, share_acquire_mode=1)
    a.acknowledge("the first", topic_id, [(0, 9, [ACCEPT])])
    a.fetch("room of 20", topic_id, (), max_records=60, version=2, share_acquire_mode=1)
    a.acknowledge("more", topic_id, [(20, 59, [ACCEPT])])
    a.fetch("whole batches", topic_id, (), max_records=60)
    a.fetch("and no more", topic_id, (), max_records=60)
    a.close()


def cut(talk: Talk) -> None:
    """The rest of a batch that a strict fetch cut is acquired apart from later batches."""
    group, _, topic_id = begin(talk)
    a = member(talk, group, topic_id)
    produce(talk, "t", 3, 4, 5, 6)
    a.fetch("cuts the second", topic_id, (), max_records=5, version=2, share_acquire_mode=1)
    a.fetch("its rest, and cuts the third", topic_id, (), max_records=4, version=2, share_acquire_mode=1)
    a.fetch("its rest and the fourth", topic_id, (), max_records=5)
    a.acknowledge("released", topic_id, [(3, 8, [RELEASE])])
    a.fetch("released ones, cut", topic_id, (), max_records=3, version=2, share_acquire_mode=1)
    a.fetch("all", topic_id, ())
    a.close()


def written_states(talk: Talk) -> int:
    """The records in the share coordinator's topic."""
    topic: Any = talk.peer.ask(
        ApiKey.METADATA, 12, MetadataRequest([MetadataRequestTopic(ZERO_UUID, SHARE_GROUP_STATE)])
    )
    parts = [ListOffsetsPartition(each.partition_index, timestamp=-1) for each in topic.topics[0].partitions]
    request = ListOffsetsRequest(-1, 0, [ListOffsetsTopic(SHARE_GROUP_STATE, parts)])
    answer: Any = talk.peer.ask(ApiKey.LIST_OFFSETS, 7, request)
    return sum(each.offset for each in answer.topics[0].partitions)


def states_before_reading(talk: Talk) -> None:
    """Partitions get their states when a member subscribes, before any member reads."""
    group, topic, _ = begin(talk, partitions=3)
    before = written_states(talk)
    a = ShareMember(talk, group, "a")
    a.heartbeat("joins", [topic])
    time.sleep(2)
    talk.lines.append(("states", written_states(talk) - before))
    offsets(talk, group, topic, 3)
    a.heartbeat("has partitions")
    talk.lines.append(("states", written_states(talk) - before))
    a.close()


SCRIPTS: dict[str, Callable[[Talk], None]] = {
    "share-states": states_before_reading,
    "share-progress": progress,
    "share-held": held,
    "share-held-strictly": held_strictly,
    "share-cut": cut,
}

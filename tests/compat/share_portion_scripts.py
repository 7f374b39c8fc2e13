"""In which portions members of share groups get records, and of which partitions they hear that
have none."""

import time
from collections.abc import Callable, Sequence

from tests.compat.group_talk import Talk
from tests.compat.share_scripts import begin, produce
from tests.compat.share_talk import ShareMember

ACCEPT, RELEASE = 1, 2


def member(talk: Talk, group: str, topic_id: bytes, partitions: Sequence[int] = (0,)) -> ShareMember:
    """With a session in which the partitions are loaded."""
    made = ShareMember(talk, group, "a")
    made.heartbeat("joins", [f"{talk.prefix}-t"])
    time.sleep(2)
    for _ in range(10):
        answer = made.fetch("opens", topic_id, partitions, wait_ms=200, min_bytes=0, max_records=1, epoch=0)
        reported = talk.lines.pop()
        if sum(len(each.partitions) for each in answer.responses) == len(partitions):
            talk.lines.append(reported)
            break
        time.sleep(0.2)
    made.session_epoch = 1
    return made


def portions(talk: Talk) -> None:
    """New records in portions of about the batch size, those that came back as they went."""
    group, _, topic_id = begin(talk)
    a = member(talk, group, topic_id)
    produce(talk, "t", 1, 1, 1, 4, 1, 3, 2, 7)
    a.fetch("portions of 3", topic_id, (), max_records=20, batch_size=3)
    a.acknowledge("releases all", topic_id, [(0, 19, [RELEASE])])
    a.fetch("again", topic_id, (), max_records=20)
    a.acknowledge("releases some", topic_id, [(1, 4, [RELEASE]), (7, 8, [RELEASE])])
    a.fetch("those", topic_id, (), max_records=20)
    produce(talk, "t", 1, 1, 1)
    a.fetch("one portion", topic_id, (), max_records=2)
    a.fetch("the last", topic_id, (), max_records=2)
    a.close()


def throttled(talk: Talk) -> None:
    """Records that come back often go out in smaller and smaller portions, the last time one by
    one."""
    group, _, topic_id = begin(talk)
    a = member(talk, group, topic_id)
    produce(talk, "t", 8, 8)
    for number in range(14):
        answer = a.fetch(f"time {number}", topic_id, ())
        if number in (4, 9):  # what is behind may come while the first are held
            a.fetch("more", topic_id, ())
        given = answer.responses[0].partitions[0].acquired_records
        a.acknowledge(
            "releases", topic_id, [(each.first_offset, each.last_offset, [RELEASE]) for each in given]
        )
    a.close()


def silence(talk: Talk) -> None:
    """A member hears once of each partition, with or without records, and does not wait when it
    does not want to."""
    group, _, topic_id = begin(talk, 3)
    a = member(talk, group, topic_id, (0, 1))
    began = time.monotonic()
    a.fetch("nothing", topic_id, (), wait_ms=30_000, min_bytes=0)
    assert time.monotonic() - began < 25
    a.fetch("adds a partition", topic_id, (2,))
    a.fetch("nothing again", topic_id, (2,))
    a.fetch("forgets and adds", topic_id, (), forgotten=(1,))
    a.fetch("adds it anew", topic_id, (1,))
    produce(talk, "t", 2, partition=1)
    a.fetch("records", topic_id, ())
    a.close()


SCRIPTS: dict[str, Callable[[Talk], None]] = {
    "share-portions": portions,
    "share-throttled": throttled,
    "share-silence": silence,
}

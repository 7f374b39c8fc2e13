"""Conversations about transactional batches: verified, added or refused, as Apache Kafka does."""

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from tests.compat.transaction_talk import STRANGER, TransactionTalk


def produce(talk: TransactionTalk) -> None:
    """Transactional batches: verified before v12, added from v12 on, refused otherwise."""
    talk.create_topic("a", 2)
    producer = talk.init("init")
    for version in (9, 10, 11):
        talk.produce(f"not added v{version}", version, producer, "a", 0, 0)
    talk.add("add", 3, producer, {"a": [0]})
    talk.produce("added", 9, producer, "a", 0, 0)
    talk.produce("next", 11, producer, "a", 0, 1)
    talk.produce("repeated", 11, producer, "a", 0, 1)
    talk.produce("out of order", 11, producer, "a", 0, 9)
    talk.produce("not transactional", 11, producer, "a", 0, 2, transactional=False)
    talk.produce("other partition", 11, producer, "a", 1, 0)
    talk.produce("no id", 11, producer, "a", 0, 2, name="")
    talk.end("commit", 4, producer, True)
    talk.produce("late", 11, producer, "a", 0, 2)
    for version in (12, 13):
        name = f"v{version}"
        producer = talk.init(f"init v{version}", name=name)
        talk.produce(f"first v{version}", version, producer, "a", 0, 0, name=name)
        talk.produce(f"second v{version}", version, producer, "a", 0, 1, name=name)
        talk.produce(f"not from zero v{version}", version, producer, "a", 1, 3, name=name)
        talk.describe(f"described v{version}", name)
        after = talk.end(f"commit v{version}", 5, producer, True, name)
        talk.produce(f"late v{version}", version, producer, "a", 0, 2, name=name)
        talk.produce(f"stranger v{version}", version, STRANGER, "a", 1, 0, name=name)
        talk.produce(f"unknown id v{version}", version, after, "a", 1, 0, name="nobody")
        talk.produce(f"next transaction v{version}", version, after, "a", 0, 0, name=name)
        talk.end(f"abort v{version}", 5, after, False, name)
    described = DescribeProducersRequest([TopicRequest(f"{talk.prefix}-a", [0, 1, 7])])
    talk.ask("producers", ApiKey.DESCRIBE_PRODUCERS, 0, described)


def refused_records(talk: TransactionTalk) -> None:
    """Records that a compacted topic does not take: control is asked first, and their partition
    joins."""
    talk.create_topic("c", 2, cleanup_policy="compact")
    for version in (11, 12, 13):
        name = f"v{version}"
        producer = talk.init(f"init v{version}", name=name)
        talk.produce(f"stranger v{version}", version, STRANGER, "c", 0, 0, name=name, key=None)
        talk.produce(f"refused v{version}", version, producer, "c", 0, 0, name=name, key=None)
        talk.describe(f"described v{version}", name)
        after = talk.end(f"abort v{version}", 5, producer, False, name)
        talk.produce(f"late v{version}", version, producer, "c", 0, 0, name=name, key=None)
        talk.produce(f"next v{version}", version, after, "c", 1, 0, name=name)
        talk.produce(f"refused within v{version}", version, after, "c", 1, 1, name=name, key=None)
        talk.describe(f"described within v{version}", name)
        talk.end(f"commit v{version}", 5, after, True, name)


def refused_batches(talk: TransactionTalk) -> None:
    """Batches that are too large or damaged: they, too, after control was asked, and their
    partition joins."""
    talk.create_topic("l", 3, max_message_bytes="200")
    large = b"v" * 200
    for version in (11, 12, 13):
        name = f"v{version}"
        producer = talk.init(f"init v{version}", name=name)
        for label, more in {"large": {"value": large}, "damaged": {"damaged": True}}.items():
            talk.produce(f"{label} of a stranger v{version}", version, STRANGER, "l", 0, 0, name=name, **more)
            talk.produce(f"{label} v{version}", version, producer, "l", 0, 0, name=name, **more)
            talk.describe(f"after {label} v{version}", name)
        talk.add(f"add v{version}", 3, producer, {"l": [1]}, name)
        talk.produce(f"first v{version}", version, producer, "l", 1, 0, name=name)
        talk.produce(f"large within v{version}", version, producer, "l", 1, 1, name=name, value=large)
        talk.describe(f"described v{version}", name)
        after = talk.end(f"commit v{version}", 5, producer, True, name)
        talk.produce(f"large, late v{version}", version, producer, "l", 2, 0, name=name, value=large)
        talk.produce(f"large, no id v{version}", version, after, "l", 2, 0, name="", value=large)
        talk.describe(f"at the end v{version}", name)

"""Requests for more replicas than one node has: granted with as many as it has
(kbroker.clamp.replication.factor). Pure.

Programs made for clusters ask for three replicas without a choice (Kafka Connect, MirrorMaker,
compose files). None has a default above three: more than that is refused. With several replica
sites a client can mean what it asks for, so only the coordinators' topics are clamped there.
"""

from collections.abc import Mapping

from kbroker.config.broker import BrokerConfig
from kbroker.config.counts import counted
from kbroker.control.metadata.topic_name import INTERNAL

CLAMP = "kbroker.clamp.replication.factor"
MAX_CLAMPED = 3
"""The largest factor that a client may request and get fewer replicas."""
_MIN_ISR = "min.insync.replicas"


def is_clamped(topic: str, config: BrokerConfig, sites: int, requested: int = -1) -> bool:
    """Whether this topic gets all available replicas if it requests more. requested: the factor of
    a client, -1 for none."""
    return config.get_bool(CLAMP) and (topic in INTERNAL or (sites <= 1 and requested <= MAX_CLAMPED))


def factor_note(topic: str, requested: int, given: int) -> str:
    """The note for the log and the answer that the topic has fewer replicas than requested."""
    return (
        f"topic '{topic}' has {counted(given, 'replica')} a partition, not {requested}: this broker is one node "
        f"({CLAMP}=false refuses)"
    )


def min_isr_note(topic: str, configs: Mapping[str, str], replicas: int) -> str:
    """A note for the log and the answer if a topic's own min.insync.replicas exceeds its number of
    replicas; else empty.

    The value is kept, for a cluster that the topic may move to: a partition with fewer replicas
    needs all of these.
    """
    requested = int(configs.get(_MIN_ISR, "1"))
    if requested <= replicas:
        return ""
    return f"topic '{topic}': {_MIN_ISR}={requested} counts as {replicas}, the number of its replicas"


def broker_min_isr_note(config: BrokerConfig, sites: int) -> str:
    """A note for the log, at the start and after a change, if the broker's min.insync.replicas
    exceeds the number of sites; else empty."""
    requested = config.get_int(_MIN_ISR)
    if requested <= sites or not config.get_bool(CLAMP):
        return ""
    have = f"{'is' if sites == 1 else 'are'} {counted(sites, 'node')}"
    return f"{_MIN_ISR}={requested} counts as the number of replicas where a topic has fewer: there {have}"

"""Settings older Kafkas had and 4.x has not: warned about and ignored, as a 4.x broker would."""

_ZOOKEEPER = "Kafka no longer uses ZooKeeper"
_OLD_FORMAT = "only record batches of format 2 are read and written"
_KRAFT = "features now have finalized versions instead of settings"

REMOVED = {
    "auto.include.jmx.reporter": "there is no JMX; metrics are served by the http process",
    "broker.id.generation.enable": _ZOOKEEPER,
    "control.plane.listener.name": "there is no control plane between brokers",
    "controlled.shutdown.max.retries": "a broker stops without asking a controller",
    "controlled.shutdown.retry.backoff.ms": "a broker stops without asking a controller",
    "delegation.token.master.key": "it is now called delegation.token.secret.key",
    "eligible.leader.replicas.enable": _KRAFT,
    "group.coordinator.new.enable": "there is only one group coordinator",
    "group.share.enable": _KRAFT,
    "group.share.max.groups": "the number of share groups is not limited",
    "inter.broker.protocol.version": _KRAFT,
    "leader.imbalance.per.broker.percentage": (
        "leaders always return to the preferred replica (auto.leader.rebalance.enable)"
    ),
    "log.message.downconversion.enable": _OLD_FORMAT,
    "log.message.format.version": _OLD_FORMAT,
    "log.message.timestamp.difference.max.ms": (
        "use log.message.timestamp.before.max.ms and log.message.timestamp.after.max.ms"
    ),
    "offsets.commit.required.acks": "offset commits are always acks=all",
    "reserved.broker.max.id": _ZOOKEEPER,
}

_PREFIXES = {"zookeeper.": _ZOOKEEPER, "password.encoder.": "passwords are no longer kept in ZooKeeper"}


def removed_because(name: str) -> str | None:
    """The reason why `name` means nothing any more, or None if it is not a removed setting."""
    for prefix, reason in _PREFIXES.items():
        if name.startswith(prefix):
            return reason
    return REMOVED.get(name)

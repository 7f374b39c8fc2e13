"""Where kbroker's settings mean to differ from Apache Kafka's, with the reason."""

OTHER_DEFAULT = {
    "node.id": "one node needs no number, so it need not be set",
    "process.roles": "kbroker is always a broker and never a controller",
    "controller.listener.names": "there are no controllers",
    "num.network.threads": "processes, counted from the cores",
    "num.io.threads": "processes, counted from the cores",
}


def is_own(name: str) -> bool:
    """Whether the setting is kbroker's alone, or not Apache Kafka's at least."""
    return "kbroker" in name or name == "write.caching" or is_confluents(name)


def is_later(name: str) -> bool:
    """Whether Apache Kafka has the setting from 4.4 on (KIP-1191)."""
    return name.startswith("errors.deadletterqueue.")


def is_confluents(name: str) -> bool:
    """Whether the setting is Confluent Server's, and not Apache Kafka's."""
    return name.startswith("confluent.")


OTHER_CHECK = {
    "authorizer.class.name": "no Java classes are loaded",
    "controller.quorum.voters": "not read",
    "controller.quorum.bootstrap.servers": "not read",
    "group.consumer.assignors": "no Java classes are loaded",
    "group.share.assignors": "no Java classes are loaded",
    "max.connections.per.ip.overrides": "checked when set, not later",
}

# A setting and a value that is refused here with another text, or taken.
OTHER_REFUSAL = {
    ("log.cleaner.threads", "0"): "Kafka says: / by zero",
    ("num.network.threads", "100"): "Kafka says: more than double; here 63 is the maximum",
    ("num.network.threads", "1048576"): "the same",
    ("num.io.threads", "1048576"): "Kafka says: more than double; here 128 is the maximum",
    ("num.recovery.threads.per.data.dir", "1048576"): "Kafka says: more than double; here 256 is the maximum",
    ("log.cleaner.threads", "1048576"): "the same",
}

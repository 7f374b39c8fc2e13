"""Levels of loggers, changed at run time under Kafka's level names (KIP-412). Not stored: a restart
forgets them."""

import logging
from collections.abc import Container

from kbroker.protocol.errors import ErrorCode, KafkaError

ROOT = "root"
LEVELS = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": 5,
}
SET, DELETE = 0, 1
ALIASES = {
    "kafka": "kbroker",
    "kafka.authorizer.logger": "kbroker.control.audit",
    "kafka.cluster.Partition": "kbroker.control.replication.reassignment",
    "kafka.controller.KafkaController": "kbroker.control.changes.topic_change",
    "kafka.coordinator.transaction.TransactionCoordinator": "kbroker.control.transactions",
    "kafka.log.LogCleaner": "kbroker.cleaner",
    "kafka.log.LogManager": "kbroker.io.logs",
    "kafka.network.Processor": "kbroker.net.process",
    "kafka.network.RequestChannel$": "kbroker.net.dispatch",
    "kafka.network.SocketServer": "kbroker.net.accept",
    "kafka.request.logger": "kbroker.net.usage.slow_requests",
    "kafka.server.ControllerServer": "kbroker.control.worker",
    "kafka.server.KafkaApis": "kbroker.api",
    "kafka.server.KafkaRequestHandler": "kbroker.control.requests",
    "kafka.server.ReplicaManager": "kbroker.control.replication.service",
    "org.apache.kafka": "kbroker",
    "org.apache.kafka.controller": "kbroker.control.changes",
    "org.apache.kafka.controller.QuorumController": "kbroker.control.changes.topic_change",
    "org.apache.kafka.coordinator.group.GroupCoordinatorService": "kbroker.control.groups",
    "org.apache.kafka.storage.internals.log.LogCleaner": "kbroker.cleaner",
    "org.apache.kafka.storage.internals.log.LogManager": "kbroker.io.logs",
    "org.apache.kafka.storage.internals.log.UnifiedLog": "kbroker.io.partition.unified_log",
    "state.change.logger": "kbroker.control.state",
}
"""Well-known loggers of Apache Kafka, and kbroker's loggers of the same subjects: tools and tests
set Kafka's names. The ancestors that a logger has in Kafka are its ancestors here, too."""


def levels() -> dict[str, str]:
    """Effective level of the root logger, of every logger of this process that kbroker owns, and of
    their aliases."""
    found = {ROOT: _name(logging.getLogger())}
    aliases = {alias: _name(logging.getLogger(name)) for alias, name in ALIASES.items()}
    for name in sorted(logging.Logger.manager.loggerDict):
        if name == "kbroker" or name.startswith("kbroker."):
            found[name] = _name(logging.getLogger(name))
    return found | aliases


def _name(logger: logging.Logger) -> str:
    level = logger.getEffectiveLevel()
    return next((name for name, number in LEVELS.items() if level >= number), "TRACE")


def check(known: Container[str], name: str, operation: int, level: str | None) -> None:
    """Check that a change is allowed. known: all loggers. Raises KafkaError with Kafka's text."""
    if operation not in (SET, DELETE):
        what = "APPEND" if operation == 2 else "SUBTRACT"
        why = f"{what} operation is not allowed for the BROKER_LOGGER resource"
        raise KafkaError(ErrorCode.INVALID_REQUEST, why)
    if name not in known:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    if operation == SET and (level or "").strip() not in LEVELS:
        why = f"Cannot set the log level of {name} to {level} as it is not a supported log level. "
        raise KafkaError(ErrorCode.INVALID_CONFIG, why + f"Valid log levels are {', '.join(sorted(LEVELS))}")
    if operation == DELETE and name == ROOT:
        why = f"Removing the log level of the {ROOT} logger is not allowed"
        raise KafkaError(ErrorCode.INVALID_REQUEST, why)


def apply(name: str, level: str | None) -> None:
    """Set a level; None restores the parent's."""
    logger = logging.getLogger("" if name == ROOT else ALIASES.get(name, name))
    logger.setLevel(logging.NOTSET if level is None else LEVELS[level.strip()])

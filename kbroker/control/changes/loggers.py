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


def levels() -> dict[str, str]:
    """Effective level of the root logger and of every logger of this process that kbroker owns."""
    found = {ROOT: _name(logging.getLogger())}
    for name in sorted(logging.Logger.manager.loggerDict):
        if name == "kbroker" or name.startswith("kbroker."):
            found[name] = _name(logging.getLogger(name))
    return found


def _name(logger: logging.Logger) -> str:
    level = logger.getEffectiveLevel()
    return next((name for name, number in LEVELS.items() if level >= number), "TRACE")


def check(known: Container[str], name: str, operation: int, level: str | None) -> None:
    """Whether a change is allowed. known: all loggers. Raises KafkaError with Kafka's text."""
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
    logger = logging.getLogger("" if name == ROOT else name)
    logger.setLevel(logging.NOTSET if level is None else LEVELS[level.strip()])

"""Requests to a group's coordinator, repeated while it is moving or loading.

Apache Kafka creates its offsets topic for the first group. Until that topic's logs are loaded,
coordinators answer NOT_COORDINATOR or similar errors, which clients retry (Kafka's
CoordinatorStrategy does so); librdkafka's admin client does not.
"""

import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from kbroker.cli.failures import explain
from kbroker.protocol.errors import ErrorCode

RETRY_S = 0.1
MOVING = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS.value,
    ErrorCode.COORDINATOR_NOT_AVAILABLE.value,
    ErrorCode.NOT_COORDINATOR.value,
)


def coordinator_result(ask: Callable[[], "Future[Any]"], subject: str, timeout_s: float) -> Any:
    """As `coordinator_answer`, for an admin client that returns futures."""
    return coordinator_answer(lambda: ask().result(), subject, timeout_s)


def coordinator_answer(ask: Callable[[], Any], subject: str, timeout_s: float) -> Any:
    """The answer to an admin client's request. Raises CommandFailed, which names the subject.

    ask: sends the request and waits. timeout_s: maximum time to wait for a moving coordinator.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return ask()
        except Exception as error:
            if _code(error) not in MOVING or time.monotonic() + RETRY_S > deadline:
                raise explain(error, subject) or error from error
        time.sleep(RETRY_S)


def _code(error: Exception) -> int | None:
    """The broker's error code in an exception of confluent-kafka or kafka-python."""
    reason = error.args[0] if error.args else None
    code = getattr(reason, "code", None)
    return code() if callable(code) else getattr(error, "errno", None)

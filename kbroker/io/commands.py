"""Commands of control and the cleaner to an IO worker: each message of ``kbroker.ipc.messages`` goes to the part of the
worker that handles its type.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from kbroker.ipc.messages import Reply
from kbroker.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

Handlers = Mapping[type, Callable[[Any], object]]


class Commands:
    """Runs in: io. Owner: the IO worker. Every call is answered, with an error code where it fails.

    parts: handlers by type of message, of each part of the worker.
    """

    def __init__(self, *parts: Handlers) -> None:
        self._handlers = {kind: handler for part in parts for kind, handler in part.items()}

    def handle(self, call_id: int, body: Any) -> Reply:
        """Do what a message says; its reply."""
        handler = self._handlers.get(type(body))
        if handler is None:
            return Reply(call_id, None, int(ErrorCode.UNKNOWN_SERVER_ERROR), f"unknown message {body!r}")
        try:
            return Reply(call_id, handler(body))
        except KafkaError as error:
            return Reply(call_id, None, int(error.code), str(error))
        except OSError as error:
            log.error("%s failed: %s", type(body).__name__, error)
            return Reply(call_id, None, int(ErrorCode.KAFKA_STORAGE_ERROR), str(error))

"""Commands of control and the cleaner to an IO worker. Each message of ``kbroker.ipc.messages`` is
dispatched to the part of the worker that handles its type.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kbroker.io.logs import Logs
from kbroker.ipc.messages import (
    ClosePartition,
    ConfigurePartition,
    DeleteRecords,
    DescribeProducers,
    EpochEndOffset,
    Reply,
    SetLeaderEpoch,
)
from kbroker.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

Handlers = Mapping[type, Callable[[Any], object]]


class Commands:
    """Runs in: io. Owner: the IO worker. Every call is answered; a call that fails is answered with
    an error code. parts: the handlers of each part of the worker, by type of message.
    """

    def __init__(self, *parts: Handlers) -> None:
        self._handlers = {kind: handler for part in parts for kind, handler in part.items()}

    def handle(self, call_id: int, body: Any) -> Reply:
        """Execute a message; returns its reply."""
        handler = self._handlers.get(type(body))
        if handler is None:
            return Reply(call_id, None, int(ErrorCode.UNKNOWN_SERVER_ERROR), f"unknown message {body!r}")
        try:
            return Reply(call_id, handler(body))
        except KafkaError as error:
            return Reply(call_id, None, int(error.code), str(error))
        except OSError as error:
            return storage_failed(call_id, body, error)


def storage_failed(call_id: int, body: object, error: OSError) -> Reply:
    """The reply to a message that failed with an error of the disk; logs the error."""
    log.error("%s failed: %s", type(body).__name__, error)
    return Reply(call_id, None, int(ErrorCode.KAFKA_STORAGE_ERROR), str(error))


class DeletionCalls:
    """Runs in: io. Owner: the IO worker. ClosePartition calls: logs that are deleted together share
    the syncs of their log dir. A log that is being opened is deleted once it is open, because a
    thread may be creating its folder. before, after: called with the slot of each log, before it is
    closed and afterwards."""

    def __init__(
        self, logs: Logs, before: Sequence[Callable[[int], object]], after: Callable[[int], object]
    ) -> None:
        self._logs = logs
        self._before = before
        self._after = after
        self._calls: list[tuple[int, ClosePartition]] = []

    def add(self, call_id: int, body: ClosePartition) -> None:
        """`run` executes the call."""
        self._calls.append((call_id, body))

    def clear(self) -> None:
        """The control process that called has died. Its successor calls again."""
        self._calls.clear()

    def run(self) -> list[Reply]:
        """Delete the logs that are not being opened; returns the replies."""
        calls = [call for call in self._calls if not self._logs.is_opening(call[1].slot)]
        self._calls = [call for call in self._calls if self._logs.is_opening(call[1].slot)]
        slots = [body.slot for _, body in calls]
        for slot in slots:
            for forget in self._before:
                forget(slot)
        errors = self._logs.delete(slots)
        for slot in slots:
            self._after(slot)
        return [
            storage_failed(call_id, body, errors[body.slot]) if body.slot in errors else Reply(call_id, None)
            for call_id, body in calls
        ]


class LogCommands:
    """Runs in: io. Owner: the IO worker. Queries about one log, or about several by their slots,
    and settings."""

    def __init__(self, logs: Logs) -> None:
        self._logs = logs

    @property
    def handlers(self) -> Handlers:
        """Handlers of messages from control."""
        return {
            DeleteRecords: lambda body: self._logs.delete_records(body.slot, body.offset),
            EpochEndOffset: self._epoch_end_offset,
            DescribeProducers: self._producers,
            SetLeaderEpoch: self._set_leader_epoch,
            ConfigurePartition: self._configure,
        }

    def _epoch_end_offset(self, body: EpochEndOffset) -> tuple[int, int]:
        return self._logs.require(body.slot).end_offset_for(body.leader_epoch)

    def _producers(self, body: DescribeProducers) -> tuple[list[list[int]] | int, ...]:
        found: list[list[list[int]] | int] = []
        after, room = body.after, body.limit
        for slot in body.slots:
            states = self._producers_of(slot, after, room)
            found.append(states)
            after = -1
            room -= 0 if isinstance(states, int) else len(states)
            if room <= 0:
                break
        return tuple(found)

    def _producers_of(self, slot: int, after: int, limit: int) -> list[list[int]] | int:
        try:
            return self._logs.require(slot).producers.states(after, limit)
        except KafkaError as error:
            return int(error.code)

    def _set_leader_epoch(self, body: SetLeaderEpoch) -> None:
        self._logs.require(body.slot).role.set_leader_epoch(body.leader_epoch)

    def _configure(self, body: ConfigurePartition) -> None:
        self._logs.configure(self._logs.require(body.slot), body.config)

"""Commands of control and the cleaner to an IO worker: one method for each message of
``kbroker.ipc.messages``.
"""

import logging
from collections.abc import Callable
from typing import Any

from kbroker.io.append.producer_table import ProducerTable
from kbroker.io.cleaning import Cleaning
from kbroker.io.durability import Durability
from kbroker.io.housekeeping import Housekeeping
from kbroker.io.log_dirs.moves import Moves
from kbroker.io.logs import Logs
from kbroker.io.replication.replicas import Replicas
from kbroker.ipc.messages import (
    BeginCleaning,
    CleanableLogs,
    ClosePartition,
    ConfigurePartition,
    DeleteRecords,
    DescribeProducers,
    EndCleaning,
    EpochEndOffset,
    Follow,
    Lead,
    OpenPartition,
    Reply,
    SetLeaderEpoch,
    Settings,
    SwapSegments,
)
from kbroker.ipc.move_messages import (
    BeginMove,
    CancelMove,
    FinishMove,
    MovesUnderWay,
    SwitchMove,
)
from kbroker.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)


class Commands:
    """Runs in: io. Owner: the IO worker. Every call is answered, with an error code where it fails."""

    def __init__(
        self,
        logs: Logs,
        durability: Durability,
        housekeeping: Housekeeping,
        producers: ProducerTable,
        cleaning: Cleaning,
        moves: Moves,
        replicas: Replicas,
    ) -> None:
        self._replicas = replicas
        self._logs = logs
        self._durability = durability
        self._housekeeping = housekeeping
        self._producers = producers
        self._cleaning = cleaning
        self._moves = moves
        self._handlers: dict[type, Callable[[Any], object]] = {
            ClosePartition: self._close,
            ConfigurePartition: self._configure,
            DeleteRecords: self._delete_records,
            EpochEndOffset: self._epoch_end_offset,
            DescribeProducers: self._describe_producers,
            SetLeaderEpoch: self._set_leader_epoch,
            Lead: replicas.take_role,
            Follow: replicas.take_role,
            Settings: self._settings,
            CleanableLogs: cleaning.cleanable,
            BeginCleaning: cleaning.begin,
            SwapSegments: cleaning.swap,
            EndCleaning: cleaning.end,
            BeginMove: moves.begin,
            CancelMove: moves.cancel,
            MovesUnderWay: moves.progress,
            SwitchMove: moves.switch,
            FinishMove: moves.finish,
        }

    def handle(self, call_id: int, body: Any) -> Reply | None:
        """Do what a message says; its reply. OpenPartition is replied to when a thread has loaded the log."""
        if isinstance(body, OpenPartition):
            self._moves.reopened(body.slot, body.log_dir)
            self._logs.open(body, call_id)
            return None
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

    def _close(self, body: ClosePartition) -> None:
        self._moves.drop(body.slot)
        self._replicas.forget(body.slot)
        self._logs.close(body.slot, body.delete)
        self._durability.forget(body.slot)

    def _configure(self, body: ConfigurePartition) -> None:
        log = self._logs.require(body.slot)
        before = log.config
        log.configure(body.config)
        self._cleaning.configured(before, body.config)

    def _delete_records(self, body: DeleteRecords) -> int:
        start = self._logs.require(body.slot).delete_records(body.offset)
        self._logs.checkpoint_start(body.slot)  # before the answer: a crash must not bring them back
        return start

    def _epoch_end_offset(self, body: EpochEndOffset) -> tuple[int, int]:
        return self._logs.require(body.slot).end_offset_for(body.leader_epoch)

    def _describe_producers(self, body: DescribeProducers) -> tuple[tuple[tuple[int, ...], ...] | int, ...]:
        return tuple(map(self._producers_of, body.slots))

    def _producers_of(self, slot: int) -> tuple[tuple[int, ...], ...] | int:
        try:
            self._logs.require(slot)
        except KafkaError as error:
            return int(error.code)
        return tuple(
            map(tuple, self._producers.states(slot))
        )  # a link packs plain tuples several times as fast

    def _set_leader_epoch(self, body: SetLeaderEpoch) -> None:
        self._logs.require(body.slot).role.set_leader_epoch(body.leader_epoch)

    def _settings(self, body: Settings) -> None:
        self._housekeeping.configure(body.values)

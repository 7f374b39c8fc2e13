"""Moves of one IO worker's logs to other log dirs, as control requests them.

BeginMove starts the copying. When little is left, MoveCaughtUp is sent to control repeatedly until
SwitchMove comes, which pauses appends and completes the copy. Control then stores and announces the
new log dir, and FinishMove switches the log to it. If the worker dies in between, its successor
finds the stored log dir in its OpenPartition call. If control dies, its successor's OpenPartition
call carries the stored log dir, and an undecided move continues.
"""

import errno
import logging
import os
from collections.abc import Callable, Mapping
from math import inf
from typing import Any

from kbroker.config.broker import BrokerConfig
from kbroker.io.log_dirs.log_move import LogMove, TargetFailed, in_target
from kbroker.io.logs import Logs
from kbroker.ipc.clock import wall_clock_ms
from kbroker.ipc.crash_point import crash_point
from kbroker.ipc.log_dir_errors import NO_ROOM
from kbroker.ipc.move_messages import (
    BeginMove,
    CancelMove,
    FinishMove,
    MoveCaughtUp,
    MoveFailed,
    MoveProgress,
    MovesInProgress,
    SwitchMove,
)
from kbroker.log import files
from kbroker.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

THROTTLE = "replica.alter.log.dirs.io.max.bytes.per.second"


class Moves:
    """Runs in: io. Owner: the IO worker."""

    def __init__(
        self, logs: Logs, config: Callable[[], BrokerConfig], notify: Callable[[int], object]
    ) -> None:
        """notify: wakes the fetches that wait at a slot."""
        self._logs = logs
        self._config = config
        self._notify = notify
        self._moves: dict[int, LogMove] = {}
        logs.failures.offline_listeners.append(self.leave)

    @property
    def handlers(self) -> Mapping[type, Callable[[Any], object]]:
        """Handlers of messages from control."""
        return {
            BeginMove: self.begin,
            CancelMove: self.cancel,
            MovesInProgress: self.progress,
            SwitchMove: self.switch,
            FinishMove: self.finish,
        }

    def begin(self, body: BeginMove) -> None:
        """Start a move; it replaces a move to another log dir. Raises KafkaError, OSError."""
        partition = self._logs.require(body.slot)
        if partition.published.generation != body.generation:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if (
            files.log_dir_of(partition.folder) == body.log_dir
        ):  # its folder would be removed, as of an earlier move
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{partition.folder} is in that log dir")
        pending = self._moves.get(body.slot)
        if pending is not None and pending.target == body.log_dir:
            return
        self.cancel(CancelMove(body.slot))
        move = LogMove(partition, body.log_dir, self._bytes_per_second)
        try:
            move.start()
        except OSError as error:
            self._disk_failed(move, error)
            raise
        self._moves[body.slot] = move
        log.info("%s: moving to %s", partition.folder, body.log_dir)

    def _bytes_per_second(self) -> float:
        config = self._config()
        value = config.own.get(THROTTLE, config.cluster.get(THROTTLE))
        return inf if value is None else max(1.0, float(value))

    def cancel(self, body: CancelMove) -> None:
        """Stop a move and remove the copy."""
        move = self._moves.get(body.slot)
        self.drop(body.slot)
        if move is not None and move.switched:
            move.log.role.resume()

    def drop(self, slot: int) -> None:
        """The partition is closed, or its move is cancelled."""
        move = self._moves.pop(slot, None)
        if move is not None:
            move.cancel()

    def leave(self, slot: int) -> None:
        """The partition is offline, or the broker stops. The next start continues the move, or
        opens the copy if control has stored the new log dir."""
        move = self._moves.pop(slot, None)
        if move is not None:
            move.leave()

    def progress(self, _: MovesInProgress) -> tuple[MoveProgress, ...]:
        """Progress of each move."""
        return tuple(MoveProgress(slot, move.bytes, move.next_offset) for slot, move in self._moves.items())

    def switch(self, body: SwitchMove) -> bool:
        """Pause appends and complete the copy; False when too much is left to copy, and then
        appends continue."""
        partition, move = self._logs.require(body.slot), self._moves.get(body.slot)
        if move is None or partition.published.generation != body.generation:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if move.switched:
            return True
        if (offline := self._offline(move)) is not None:
            self._failed(body.slot, offline)
            raise offline
        try:
            partition.role.pause()
            done = move.complete()
            if done:  # the move must not restart if the broker dies before `finish`
                with in_target():
                    self._logs.checkpoint_copy(body.slot, move.target)
                crash_point("move: copy complete")
        except OSError as error:
            partition.role.resume()
            self._failed(body.slot, error)
            raise
        if not done:
            partition.role.resume()
        return done

    def finish(self, body: FinishMove) -> None:
        """The new log dir is stored and announced: continue there. body.log_dir: the new log dir.
        Raises KafkaError, and OSError: the log is closed, to be opened there again."""
        partition, move = self._logs.require(body.slot), self._moves.get(body.slot)
        if files.log_dir_of(partition.folder) == body.log_dir:
            return  # it uses the stored log dir already
        if move is None or not move.switched or move.target != body.log_dir:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{partition.folder} stays in its log dir")
        del self._moves[body.slot]
        self._logs.leave(body.slot)
        try:
            self._logs.relocate(body.slot, move.rename(), wall_clock_ms())
        except OSError as error:
            self._logs.failures.log_lost(body.slot, move.target, error)
            raise
        crash_point("move: continues")
        self._notify(body.slot)
        log.info("%s: moved here", partition.folder)

    def reopened(self, slot: int, log_dir: str) -> None:
        """Control has restarted and sends a log's stored log dir: finish a decided move, or
        continue an undecided one."""
        move = self._moves.get(slot)
        if move is None or not move.switched:
            return
        if move.target == log_dir:
            try:
                self.finish(FinishMove(slot, log_dir))
            except OSError as error:  # it is closed now, and control's call opens it
                log.error("%s is opened again: %s", move.log.folder, error)
        else:
            move.log.role.resume()
            move.resume()

    def report(self, send: Callable[[object], None]) -> None:
        """Report to control the moves that have failed or caught up; called several times a second
        while there are any."""
        for slot, move in list(self._moves.items()):
            if (error := move.error or self._offline(move)) is not None:
                self._failed(slot, error)
                send(MoveFailed(slot, move.generation, move.target))
            elif not move.switched and move.caught_up:
                send(MoveCaughtUp(slot, move.generation, move.target))

    @property
    def count(self) -> int:
        """Moves in progress."""
        return len(self._moves)

    def _offline(self, move: LogMove) -> OSError | None:
        """The error that took the log dir offline to which a log is copied: there it would not be
        served. A complete copy may be the log already."""
        number = 0 if move.switched else self._logs.failures.of(move.target)
        return TargetFailed(number, os.strerror(number), move.target) if number else None

    def _failed(self, slot: int, error: Exception) -> None:
        move = self._moves.get(slot)
        if move is not None:
            log.error("%s cannot be moved to %s: %s", move.log.folder, move.target, error)
            self.drop(slot)
            self._disk_failed(move, error)

    def _disk_failed(self, move: LogMove, error: Exception) -> None:
        """Take the log dir offline to which a log could not be copied, as Apache Kafka does, or the
        one in which it could not be read. A full disk only ends the move, and so does a folder that
        is gone: control may have renamed it, because the topic was deleted."""
        if isinstance(error, TargetFailed):
            if error.errno not in (*NO_ROOM, errno.ENOENT):
                self._logs.failures.dir_failed(move.target, error)
        elif isinstance(error, OSError):
            self._logs.failures.read_failed(move.log.slot, error)

    def close(self) -> None:
        """End all threads and keep the copies."""
        for slot in list(self._moves):
            self.leave(slot)

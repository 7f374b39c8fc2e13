"""The IO worker's interface to replication: one object for its loop, over leading and following."""

from collections.abc import Callable, Mapping
from typing import Any

from kbroker.config.sites import sites_of
from kbroker.io.append.drain import Drain
from kbroker.io.durability import Durability
from kbroker.io.logs import Logs
from kbroker.io.replication.following import Following
from kbroker.io.replication.leading import Leading
from kbroker.io.replication.throttle import Throttle
from kbroker.ipc.child import ChildContext
from kbroker.ipc.log_dir_errors import NO_ROOM, LogDirErrors
from kbroker.ipc.messages import Follow, Lead
from kbroker.protocol.errors import ErrorCode, KafkaError

CHECK_INTERVAL_MS = 500  # high watermarks and log starts of idle partitions reach their copies this often
SOON_MS = 5  # while a leader is not there yet


class Replicas:
    """Runs in: io. Owner: the IO worker.

    active: whether this worker has any such partition; while it has none, no method is called.
    """

    def __init__(self, context: ChildContext, drain: Drain, logs: Logs, durability: Durability) -> None:
        shared, sites = context.shared, len(sites_of(context.config))
        throttle = Throttle(shared, context.index, context.config.node_id, sites)
        self.leading = Leading(shared, drain, logs, durability.advanced)
        errors = LogDirErrors(context.config.log_dirs, shared)
        self.following = Following(shared, drain, logs, durability, throttle, errors)
        self.active = False
        self._drain = drain
        self._logs = logs
        self._durability = durability
        self._check_due_ms = 0

    @property
    def handlers(self) -> Mapping[type, Callable[[Any], object]]:
        """Handlers of messages from control."""
        return {Lead: self._change_role, Follow: self._change_role}

    def _change_role(self, role: Lead | Follow) -> object:
        """As `take_role`. An error takes the log dir offline, so that control chooses another
        leader; on a full disk it calls again."""
        try:
            return self.take_role(role)
        except OSError as error:
            if error.errno not in NO_ROOM:
                self._logs.failures.log_failed(role.slot, error)
            raise

    def take_role(self, role: Lead | Follow) -> object:
        """Control's decision about one slot; the reply to it. Raises KafkaError, OSError."""
        try:
            if isinstance(role, Lead):
                self.following.lower_checkpoints(role.slot)
                self.following.forget(role.slot)
                complete = self.leading.lead(role)
                self._durability.configured(self._logs.require(role.slot))
                return complete
            self.leading.forget(role.slot)
            self.following.follow(role)
            return None
        finally:
            self.active = len(self.leading) + len(self.following) > 0

    def begin(self, role: Lead | Follow | None) -> tuple[int, str]:
        """The role of a log that was just opened; (error code, text) for the answer to
        OpenPartition."""
        if role is not None:
            try:
                self.take_role(role)
            except OSError as error:
                self._logs.failures.log_failed(role.slot, error)
                return ErrorCode.KAFKA_STORAGE_ERROR, str(error)
            except KafkaError as error:  # it went offline at its first high watermark
                return int(error.code), str(error)
        return 0, ""

    def forget(self, slot: int) -> None:
        """The slot is being closed."""
        self.leading.forget(slot)
        self.following.forget(slot)
        self.active = len(self.leading) + len(self.following) > 0

    def turn(self, now_ms: int) -> bool:
        """Copy and move high watermarks; whether there was anything to do."""
        if now_ms >= self._check_due_ms:
            self.following.check()
            self._check_due_ms = now_ms + (SOON_MS if self.following.waiting else CHECK_INTERVAL_MS)
        copied = self.following.pull()
        advanced = self.leading.advance()
        if advanced:
            self._drain.wake()
        return advanced or copied

    def synced(self) -> None:
        """Called when syncs have ended."""
        self.following.synced()

    def pending(self) -> bool:
        """Whether ``turn`` has work."""
        return self.following.is_lagging() or self.leading.can_advance()

    def next_due_ms(self, now_ms: int) -> int:
        """The time at which ``turn`` must be called even if no process has woken the worker."""
        if self.following.waiting:
            return min(self._check_due_ms, now_ms + SOON_MS)
        return self._check_due_ms

"""Request and result of loading a log: the types that a worker and `recovery` exchange."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from kbroker.config.topic import TopicConfig
from kbroker.io.files.leader_epoch_cache import LeaderEpochFileCache
from kbroker.io.files.producer_entry import ProducerEntry
from kbroker.io.files.segment import ActiveState, Segment


class TrustedEnd(NamedTuple):
    """End of a log as its last writer published it, in the same run of the machine: every byte before it is
    whole (in the page cache, if not on disk). From SLOT_ACTIVE_BASE, SLOT_ACTIVE_END, SLOT_LOG_END, SLOT_LOG_START."""

    active_base: int
    position: int
    next_offset: int
    log_start: int = 0


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """Request to load a log. With write.caching=false all of it is on disk before anybody sees it.

    clean: the last shutdown was clean. recovery_point: everything below is on disk. log_start: checkpointed
    log start. progress: called with scanned bytes.
    """

    folder: str
    config: TopicConfig
    clean: bool
    recovery_point: int
    log_start: int
    now_ms: int
    trusted_end: TrustedEnd | None = None
    producer_expiration_ms: int = 86_400_000
    progress: Callable[[int], None] | None = None


@dataclass(slots=True)
class LoadedLog:
    """A log ready to be served: closed segments by base offset, the active one's state, and what is around them.

    deleted: renamed files that are due for removal after file.delete.delay.ms. truncated_bytes: cut from a torn tail.
    """

    closed: list[Segment]
    active: ActiveState
    log_start: int
    recovery_point: int
    epochs: LeaderEpochFileCache
    producers: list[ProducerEntry] = field(default_factory=list)
    first_unstable: int = -1
    deleted: list[str] = field(default_factory=list)
    truncated_bytes: int = 0
    scanned_bytes: int = 0
    has_aborted: bool = False  # whether a segment has a transaction index

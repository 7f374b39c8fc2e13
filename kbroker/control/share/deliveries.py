"""What a share fetch takes from a partition: the batches of the log, and which of their records the
member has acquired."""

import logging
from bisect import bisect_right
from collections.abc import Callable, Sequence

from kbroker.control.broker import Broker
from kbroker.control.share.acquiring import Spec
from kbroker.control.share.partitions import SharePartitions
from kbroker.control.share.reading import Piece, log_start_of, read_pieces
from kbroker.control.share.sessions import ShareSession
from kbroker.control.share.share_partition import Acquired
from kbroker.control.share.state_shard import ShareKey
from kbroker.protocol.errors import KafkaError

log = logging.getLogger(__name__)


class Deliveries:
    """Runs in: control. Owner: the ShareService. One fetch at a time is at a partition.

    is_open: whether a session is. freed(key): called when others may have the partition.
    """

    def __init__(
        self,
        broker: Broker,
        partitions: SharePartitions,
        is_open: Callable[[ShareSession], bool],
        freed: Callable[[ShareKey], None],
    ) -> None:
        self._broker = broker
        self._partitions = partitions
        self._is_open = is_open
        self._freed = freed
        self._fetching: set[ShareKey] = set()
        self._passed_by: set[ShareKey] = set()

    async def load(self, key: ShareKey) -> None:
        """Load the partition for the next fetch, which also reports an error."""
        if key in self._fetching:
            return
        self._fetching.add(key)
        try:
            await self._partitions.open(key)
        except KafkaError as error:
            log.debug("%s is not loaded: %s", key, error)
        finally:
            self._fetched(key)

    def _fetched(self, key: ShareKey) -> None:
        """Others may have the partition now."""
        self._fetching.discard(key)
        if key in self._passed_by:
            self._passed_by.discard(key)
            self._freed(key)

    async def take(
        self, key: ShareKey, session: ShareSession, max_bytes: int, spec: Spec
    ) -> tuple[bytes, list[Acquired]] | None:
        """(batches of the log, offsets of them); None while the group can be given nothing more,
        and while another fetch is at this partition: this one is woken after it. Raises
        KafkaError."""
        if key in self._fetching:
            self._passed_by.add(key)
            return None
        self._fetching.add(key)
        try:
            return await self._acquire(key, session, max_bytes, spec)
        finally:
            self._fetched(key)

    async def _acquire(
        self, key: ShareKey, session: ShareSession, max_bytes: int, spec: Spec
    ) -> tuple[bytes, list[Acquired]] | None:
        log_partition = self._partitions.log_of(key)
        partition = await self._partitions.open(key)
        limits = self._partitions.limits(key.group_id)
        if not partition.may_acquire(limits):
            return None
        partition.archive_before(log_start_of(self._broker, log_partition))
        committed = self._partitions.reads_committed(key.group_id)
        start = partition.next_offset()
        pieces = await read_pieces(self._broker, log_partition, start, max_bytes, committed)
        if not pieces or self._partitions.get(key) is not partition or not self._is_open(session):
            return b"", []
        behind = start
        for piece in pieces:
            if piece.first > behind:  # compaction took what was there
                partition.pass_over(behind, piece.first - 1)
            if not piece.deliver:
                partition.pass_over(piece.first, piece.last)
            behind = piece.last + 1
        acquired = partition.acquire(
            session.member_id,
            [(max(piece.first, start), piece.last) for piece in pieces if piece.deliver],
            spec,
            limits,
            self._broker.now_ms(),
        )
        await self._partitions.settle(key, partition)
        return _records_of(pieces, acquired), acquired


def _records_of(pieces: Sequence[Piece], acquired: Sequence[Acquired]) -> bytes:
    """The batches that hold what was acquired; both are in the order of their offsets."""
    firsts = [each.first for each in acquired]
    wanted: list[bytes] = []
    for piece in pieces:
        at = bisect_right(firsts, piece.last) - 1
        if at >= 0 and acquired[at].last >= piece.first:
            wanted.append(piece.data)
    return b"".join(wanted)

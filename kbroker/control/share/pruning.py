"""Keeps `__share_group_state` short: it is not compacted, so records that later snapshots replace
are deleted from its front."""

import asyncio
import logging
from functools import partial
from typing import Final

from kbroker.control.broker import Broker
from kbroker.control.coordinator.runtime import Runtime
from kbroker.control.metadata.catalogue import Partition
from kbroker.control.share.reading import limit_of, log_start_of
from kbroker.control.share.state_shard import ShareKey, ShareStateShard
from kbroker.ipc.layout import Slot
from kbroker.ipc.messages import DeleteRecords, SyncLog
from kbroker.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

RECORDS_PER_STATE = 4
"""A partition is pruned when it has more records than this for each state, on average, and more
than FEW_RECORDS."""
FEW_RECORDS = 1000
"""A partition with so few records is not pruned."""
SYNC_S: Final = 30.0
"""Seconds until the snapshots are on disk; afterwards nothing is deleted before the next time."""
CHECK_S: Final = 0.05


class StatePruning:
    """Runs in: control. Owner: the ShareService.

    Every state is written as a snapshot at the end of the log; all earlier records are useless when
    these are on disk: after a power cut a log that starts after its end would have no state.
    (Kafka waits until each state is written as a snapshot; a state that does not change delays the
    deletion there.)
    """

    def __init__(self, broker: Broker, runtime: Runtime, shard: ShareStateShard) -> None:
        self._broker = broker
        self._runtime = runtime
        self._shard = shard

    async def prune(self) -> None:
        """Shorten the partitions that have become long."""
        topic = self._broker.catalogue.get(self._runtime.topic)
        for partition in topic.partitions if topic else ():
            try:
                if partition.index in self._runtime.loaded and self._broker.is_online(partition):
                    await self._prune(partition)
            except KafkaError as error:
                log.warning("%s could not be shortened: %s", partition.folder, error)

    async def _prune(self, partition: Partition) -> None:
        start, end = log_start_of(self._broker, partition), limit_of(self._broker, partition, False)
        keys = self._shard.keys_in(partition.index)
        if end - start <= max(FEW_RECORDS, RECORDS_PER_STATE * len(keys)):
            return
        rewritten: set[ShareKey] = set()
        while keys:
            for key in keys:
                await self._runtime.run(str(key), partial(self._shard.rewrite, key))
            rewritten.update(keys)
            # the first record of a state may be before the end and not replayed until now: it is
            # replayed before any snapshot, which was appended after it
            keys = [key for key in self._shard.keys_in(partition.index) if key not in rewritten]
        if rewritten:
            await self._sync(partition)
            await self._broker.links.call_worker(partition.worker, DeleteRecords(partition.slot, end))
            log.info("%s: %d records replaced by %d snapshots", partition.folder, end - start, len(rewritten))

    async def _sync(self, partition: Partition) -> None:
        """Wait until the snapshots are on the disk of each in-sync replica, any of which may lead
        after a power cut. Raises KafkaError."""
        end = limit_of(self._broker, partition, False)
        for replica in [one for one in partition.replicas if one.in_sync]:
            await self._broker.links.call_worker(replica.worker, SyncLog(replica.slot), SYNC_S)
        deadline = asyncio.get_running_loop().time() + SYNC_S
        while any(
            one.in_sync and self._broker.slots.word(one.slot, Slot.DURABLE) < end
            for one in partition.replicas
        ):
            if asyncio.get_running_loop().time() >= deadline:
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "its snapshots are not on disk yet")
            await asyncio.sleep(CHECK_S)

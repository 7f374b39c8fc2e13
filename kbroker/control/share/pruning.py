"""Keeps `__share_group_state` short: it is not compacted, so records that later snapshots replace
are deleted from its front."""

import logging
from functools import partial

from kbroker.control.broker import Broker
from kbroker.control.coordinator.runtime import Runtime
from kbroker.control.metadata.catalogue import Partition
from kbroker.control.share.reading import limit_of, log_start_of
from kbroker.control.share.state_shard import ShareKey, ShareStateShard
from kbroker.ipc.messages import DeleteRecords
from kbroker.protocol.errors import KafkaError

log = logging.getLogger(__name__)

RECORDS_PER_STATE = 4
"""A partition is pruned when it has more records for each state, on average..."""
FEW_RECORDS = 1000
"""... and more than these in all."""


class StatePruning:
    """Runs in: control. Owner: the ShareService.

    Every state is written as a snapshot at the end of the log; all earlier records are then
    useless. (Kafka waits until each state is written as a snapshot; a state that does not change
    delays the deletion there.)
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
            await self._broker.links.call_worker(partition.worker, DeleteRecords(partition.slot, end))
            log.info("%s: %d records replaced by %d snapshots", partition.folder, end - start, len(rewritten))

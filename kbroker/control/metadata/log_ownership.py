"""The IO worker that writes each log, and the number of logs of each worker."""

from collections.abc import Iterable, Mapping

from kbroker.control.metadata.catalogue import Replica
from kbroker.control.metadata.placement import least_loaded
from kbroker.control.metadata.slots import Slots
from kbroker.ipc.shared import Shared


class LogOwnership:
    """Runs in: control. Owner: the Broker. workers: those of each log directory; any, for a
    directory without."""

    def __init__(self, shared: Shared, slots: Slots, workers: Mapping[str, tuple[int, ...]]) -> None:
        self._shared = shared
        self._slots = slots
        self._workers = workers
        self._load: dict[int, int] = dict.fromkeys(range(shared.sizes.workers), 0)

    def assign(self, replica: Replica) -> None:
        """Choose the IO worker that writes the log: one of its directory's, the least loaded."""
        candidates = self._workers.get(replica.log_dir) or tuple(self._load)
        known = self._slots.owner(replica)
        replica.worker = known if known is not None else least_loaded(candidates, self._load)
        self._load[replica.worker] += 1

    def release(self, replicas: Iterable[Replica]) -> None:
        """Free the slots of deleted logs, with counters that begin at 0, and their share of the
        load."""
        gone = list(replicas)
        for replica in gone:
            self._load[replica.worker] -= 1
        slots = [replica.slot for replica in gone]
        self._reset_counters(slots)
        self._slots.release(slots)

    def transfer_counters(self, gone: Iterable[Replica], heir: Replica) -> None:
        """Add the counts of replicas that leave a partition to those of one that stays. Call it
        before other processes see that they have left: the counters of a partition and a topic
        never fall."""
        bases = self._shared.counter_bases
        for replica in gone:
            counted = sum(rows[replica.slot] for rows in self._shared.counters)
            moved = counted - bases[replica.slot]
            bases[replica.slot] = counted
            bases[heir.slot] -= moved

    def _reset_counters(self, slots: list[int]) -> None:
        """Let the next partitions of the slots count from 0. Other processes write the counters, so
        their present sums become the bases that /metrics subtracts."""
        if slots:
            counters = [rows[slots] for rows in self._shared.counters]
            self._shared.counter_bases[slots] = sum(counters[1:], start=counters[0])

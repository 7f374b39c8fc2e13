"""Several logs whose append rows are rows of one array, as in an IO worker."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from kbroker.config.topic import TopicConfig
from kbroker.io.append.rows import AppendRow
from kbroker.io.partition.unified_log import UnifiedLog
from tests.io.append.plain_append import Log, topic_config
from tests.log.batch_bytes import batch


class Node:
    """Logs with an append each, the first one's longest ago, in one array of rows."""

    def __init__(
        self, root: Path, logs: int, config: TopicConfig | None = None, reserve_max_bytes: int = 0
    ) -> None:
        self.rows = AppendRow.table(logs + 4)
        self.synced: list[int] = []
        self.logs: dict[int, Log] = {}
        for slot in range(logs):
            folder = root / str(slot)
            folder.mkdir()
            log = self.logs[slot] = Log(
                folder,
                config or topic_config(),
                slot=slot,
                row=self.rows[slot],
                reserve_max_bytes=reserve_max_bytes,
            )
            log.open()
            log.append(batch(0, [b"v"]))
            log.row[AppendRow.LAST_APPEND_MS] = slot + 1

    def get(self, slot: int) -> UnifiedLog | None:
        return self.logs[slot].partition if slot in self.logs else None

    def sync(self, slots: Iterable[int]) -> None:
        for slot in slots:
            self.synced.append(slot)
            self.logs[slot].partition.durability.flush()

    def fail(self, slot: int, error: OSError) -> None:
        raise AssertionError(f"sync of {slot} failed: {error}")

    @property
    def open(self) -> list[int]:
        return [slot for slot, log in self.logs.items() if log.row[AppendRow.LOG_FD] >= 0]

    def __iter__(self) -> Iterator[UnifiedLog]:
        return (log.partition for log in self.logs.values())

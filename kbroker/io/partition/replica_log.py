"""An open log as one of several replicas: leading, following, and a high watermark below the log end."""

from kbroker.io.append.rows import AppendRow
from kbroker.io.partition.cut_log import CutLog
from kbroker.ipc.layout import Slot
from kbroker.log.open_files import OpenFiles
from kbroker.log.reader import LogReader


class ReplicaLog(CutLog):
    """Runs in: io. Owner: the IO worker. Operations of io/replication on a log."""

    _reader: LogReader | None = None  # finds places below the log's end

    def _first_mark(self, end: int) -> int:
        """High watermark at opening: the log end, unless there are other replicas."""
        if not self.replicated:
            return end
        return self.log_start if self.known_mark is None else max(self.log_start, min(self.known_mark, end))

    def _first_epoch_start(self) -> int:
        if not self.replicated:
            return 0
        return self.log_end if self.leads else Slot.NOT_LED

    def lead(self, leader_epoch: int) -> None:
        """Take appends from now on, with an epoch that begins at the log's end. Raises OSError."""
        self.leads = self.replicated = True
        self._lead(max(leader_epoch, self.epochs.latest))
        self.epoch_start = self.log_end
        self._publish(high_watermark=self.high_watermark, place=self.place_of(self.high_watermark))
        self.let_append()  # unless it is paused: then when it goes on

    def resign(self) -> None:
        """Take no appends; the slot keeps its epoch, so that followers copy the rest."""
        self.leads = False
        self.epoch_start = Slot.NOT_LED
        self.let_append()
        self._publish()

    def follow(self, leader_epoch: int) -> None:
        """Take no appends; -1 until the log agrees with its leader's, then that leader's epoch."""
        self.leads, self.replicated = False, True
        self.let_append()
        self.row[AppendRow.LEADER_EPOCH] = leader_epoch
        self.epoch_start = Slot.NOT_LED
        self._publish()

    def publish_copied(self, mark: int) -> None:
        """Publish what was copied, and a high watermark that the leader has published."""
        self._publish(high_watermark=min(max(mark, self.high_watermark), self.log_end))

    def publish_high_watermark(self, mark: int) -> None:
        """Every in-sync replica has the records below. Raises OSError, CorruptLog."""
        self._publish(high_watermark=mark, place=None if mark == self.log_end else self.place_of(mark))

    def place_of(self, offset: int) -> tuple[int, int]:
        """(segment base, byte position) where an offset begins or, in a gap, what follows it. Raises OSError,
        CorruptLog."""
        end = int(self.row[AppendRow.BASE_OFFSET]), int(self.row[AppendRow.POSITION])
        if offset >= self.log_end:
            return end
        if self._reader is None:
            self._reader = LogReader(self.folder, OpenFiles(8))
        place = self._reader.locate(offset, *end, int(self.words[Slot.SEGMENTS_VERSION]))
        return end if place is None else (place.segment_base, place.position)

    def advance_log_start(self, offset: int) -> None:
        """The log starts there, if not later."""
        if offset > self.log_start:
            self.log_start = offset
            if self.epochs.truncate_from_start(offset):
                self.epochs.write()
            self._publish()

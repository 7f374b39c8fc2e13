"""Strategies of `groups reset-offsets` for a group's new offset. Pure, except for reading the file.

As in kafka-consumer-groups, a target outside the log becomes the nearest end of the log.
"""

import csv
import io
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from kbroker.cli.failures import CommandFailed, UsageFailed
from kbroker.cli.input_files import read_text
from kbroker.cli.partitions import Partition
from kbroker.config.whole_numbers import whole_number

Saved = dict[str, dict[Partition, int]]
"""Offsets by group."""


class LogRange(Struct, frozen=True):
    """The offsets of a partition: from earliest up to, but not including, latest."""

    earliest: int
    latest: int

    def clip(self, offset: int) -> int:
        """The nearest valid offset of a group."""
        return min(max(offset, self.earliest), self.latest)


def shift(committed: Mapping[Partition, int], partition: Partition, by: int) -> int:
    """The committed offset plus a number. Raises CommandFailed if nothing is committed."""
    if partition not in committed:
        raise CommandFailed(f"{partition[0]}-{partition[1]} has no committed offset to shift")
    return committed[partition] + by


def read_csv(path: Path, group: str | None) -> Saved:
    """Offsets from lines `topic,partition,offset` (of `group`) or
    `group,topic,partition,offset`.

    Raises UsageFailed."""
    found: Saved = {}
    lines = io.StringIO(read_text(path), newline="")
    try:
        for number, row in enumerate(csv.reader(lines), 1):
            if not row:
                continue
            if len(row) == 3 and group is not None:
                row = [group, *row]
            partition, offset = (whole_number(cell.strip()) for cell in (*row, "", "", "")[2:4])
            if len(row) != 4 or partition is None or offset is None:
                expected = "topic,partition,offset" if group is not None else "group,topic,partition,offset"
                raise UsageFailed(f"{path}:{number}: expected {expected}")
            found.setdefault(row[0], {})[row[1], partition] = offset
    except csv.Error as error:
        raise UsageFailed(f"{path}: {error}") from error
    return found


def csv_lines(offsets: Iterable[tuple[str, Partition, int]], with_group: bool) -> list[str]:
    """The lines that read_csv reads. A group's name may contain anything, so it is quoted if
    necessary."""
    lines = []
    for group, (topic, partition), offset in offsets:
        line = io.StringIO()
        csv.writer(line).writerow([*([group] if with_group else []), topic, partition, offset])
        lines.append(line.getvalue().removesuffix("\r\n"))
    return lines

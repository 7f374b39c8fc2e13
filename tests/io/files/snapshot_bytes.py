"""The bytes of a snapshot file, written producer by producer: the plain reference of
`producer_columns.snapshot`, which writes them column by column."""

from collections.abc import Iterable, Iterator

from kbroker.io.files import producer_snapshot as file
from kbroker.io.files.producer_snapshot import ProducerEntry
from kbroker.kernels.crc32c import crc32c


def encode(entries: Iterable[ProducerEntry]) -> bytes:
    """The bytes of a snapshot file."""
    known = list(entries)
    earlier = b"".join(_pack_earlier(known))
    body = (
        file.COUNT.pack(len(known)) + b"".join(map(_pack, known)) + (file.MAGIC + earlier if earlier else b"")
    )
    return file.HEADER.pack(file.VERSION, crc32c(body)) + body


def _pack(entry: ProducerEntry) -> bytes:
    last = entry.batches[-1] if entry.batches else None
    return file.ENTRY.pack(
        entry.producer_id,
        entry.producer_epoch,
        entry.last_sequence,
        entry.last_offset,
        last.offset_delta if last else 0,
        entry.last_timestamp,
        entry.coordinator_epoch,
        entry.current_txn_first_offset,
    )


def _pack_earlier(entries: list[ProducerEntry]) -> Iterator[bytes]:
    for entry in entries:
        for batch in entry.batches[:-1]:
            yield file.EARLIER.pack(
                entry.producer_id,
                batch.base_sequence,
                batch.last_sequence,
                batch.base_offset,
                batch.last_offset,
                batch.timestamp,
            )

"""What a test writes and reads back, whichever client does it."""

import random
from dataclasses import dataclass, replace

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True)
class Record:
    """One record. timestamp: ms since the epoch; None leaves it to the client (and is not
    compared)."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp: int | None = None

    @property
    def is_text(self) -> bool:
        """Whether line-based tools can write it: UTF-8 without control characters, no null in the
        headers."""
        parts = [self.key or b"", self.value or b"", *(value or b"" for _, value in self.headers)]
        try:
            return all(part.decode().isprintable() for part in parts)
        except UnicodeDecodeError:
            return False


BINARY = bytes(range(256))
LARGE = random.Random(7).randbytes(200_000)
REPETITIVE = b"the same words again and again " * 6_000

RECORDS = (
    Record(b"key", b"value"),
    Record(None, b"a null key"),
    Record(b"a null value", None),
    Record(None, None),
    Record(b"", b"an empty key"),
    Record(b"an empty value", b""),
    Record(b"", b""),
    Record("schlüssel".encode(), "wert ✓ 値".encode()),
    Record(BINARY, BINARY[::-1]),
    Record(b"one header", b"v", (("name", b"text"),)),
    Record(b"headers", b"v", (("a", b"1"), ("b", b""), ("a", b"2"), ("schlüssel", "✓".encode()))),
    Record(b"a null header", b"v", (("none", None), ("after", b"it"))),
    Record(b"a binary header", b"v", (("bytes", b"\x01\xff\xfe\x80"),)),
    Record(b"old", b"a timestamp of 1970", (), 1),
    Record(b"time", b"a timestamp of 2020", (("h", b"1"),), 1_600_000_000_123),
    Record(b"large", LARGE),
    Record(b"repetitive", REPETITIVE),
)
"""The kinds that differ somewhere on the way."""


def without_times(records: list[Record], like: list[Record]) -> list[Record]:
    """The records read, without the timestamps that the writer of `like` had left to its client."""
    pairs = zip(records, like, strict=True)
    return [replace(read, timestamp=None) if wrote.timestamp is None else read for read, wrote in pairs]

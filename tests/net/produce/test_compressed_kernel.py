"""The kernel accepts a compressed batch only if the walk in Python accepts it, too."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.kernels.codec_libraries import TABLE_WORDS, CodecLibraries
from kbroker.kernels.lz4 import SLACK_BYTES
from kbroker.net.produce.compressed_kernel import GZIP_PLAIN_BYTES, PLAIN_BYTES, records_are_valid
from kbroker.net.produce.record_walk import Demands, WalkResult, walk
from kbroker.net.rows import Context, PartialRecord
from kbroker.protocol import batch_layout as rb
from kbroker.protocol.compression import Codec, compress
from kbroker.protocol.records import build_batch, read_batches
from tests.net.produce.compressed_cases import RECORDS, others, same_answers, with_body

FAR = 1 << 62
CODECS = (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)
LIBRARIES = CodecLibraries()


def fine(
    data: bytes,
    keys: bool = False,
    oldest: int = -FAR,
    newest: int = FAR,
    libraries: CodecLibraries = LIBRARIES,
) -> int | None:
    """The largest timestamp of a batch that is surely valid."""
    words, partial = Context.row(), PartialRecord.row()
    plain, batch = np.zeros(PLAIN_BYTES + SLACK_BYTES, np.uint8), np.frombuffer(data, np.uint8)
    words[Context.PLAIN], words[Context.PARTIAL] = plain.ctypes.data, partial.ctypes.data
    words[Context.LIBRARIES] = libraries.address
    codec = data[rb.ATTRIBUTES + 1] & rb.ATTRIBUTE_CODEC_MASK
    yes = records_are_valid(words.ctypes.data, batch.ctypes.data, len(data), codec, keys, oldest, newest)
    return int(words[Context.WALK_MAX_TIMESTAMP]) if yes else None


def walked(data: bytes, keys: bool = False, oldest: int = -FAR, newest: int = FAR) -> WalkResult:
    batch = next(read_batches(data, check_crc=False))
    return walk(batch, batch.data[rb.RECORDS :], Demands(oldest, newest, keys, ordered=True, sized=False))


@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=100, deadline=None)
@given(records=RECORDS)
def test_good_records_are_fine_and_others_are_left_to_python(codec: Codec, records: list[Any]) -> None:
    data = build_batch(records, codec=codec)
    stamps = [record[3] for record in records]
    assert fine(data) == max(stamps)
    late = max(stamps) > 1000
    assert fine(data, newest=1000) == (None if late else max(stamps))
    old = any(-1 != stamp < 1000 for stamp in stamps)
    assert fine(data, oldest=1000) == (None if old else max(stamps))
    keyless = any(record[0] is None for record in records)
    assert fine(data, keys=True) == (None if keyless else max(stamps))


@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=500, deadline=None)
@given(records=RECORDS, data=st.data())
def test_altered_records_are_fine_only_if_the_walk_finds_them_fine(
    codec: Codec, records: list[Any], data: st.DataObject
) -> None:
    plain = bytearray(build_batch(records))
    at = data.draw(st.integers(rb.RECORDS, len(plain) - 1))
    plain[at] ^= data.draw(st.integers(1, 255))
    batch = with_body(build_batch(records, codec=codec), compress(codec, bytes(plain[rb.RECORDS :])))
    newest = data.draw(st.sampled_from([FAR, 1 << 44]))
    expected = walked(batch, newest=newest)
    well = not expected.error and not expected.refused
    assert fine(batch, newest=newest) == (expected.largest if well else None)


@pytest.mark.parametrize("codec", CODECS)
def test_every_odd_batch_is_fine_only_if_the_walk_finds_it_fine(codec: Codec) -> None:
    batches = others(codec) | {name: batch for name, (batch, _) in same_answers(codec).items()}
    for name, batch in batches.items():
        largest, expected = fine(batch), walked(batch)
        assert largest is None or WalkResult(largest=largest) == expected, name
    assert fine(same_answers(codec)["good"][0]) is not None


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
def test_without_its_library_a_codec_is_left_to_python(codec: Codec) -> None:
    libraries = CodecLibraries()
    assert all(libraries.words[:TABLE_WORDS]), "zlib and zstd are there where tests run"
    data = build_batch([(b"k", b"v", (), 1)], codec=codec)
    assert fine(data, libraries=libraries) == 1
    libraries.words[:] = 0
    assert fine(data, libraries=libraries) is None


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
def test_more_than_one_stream_is_left_to_python(codec: Codec) -> None:
    plain = build_batch([(b"k", b"v" * 40, (), 1)])[rb.RECORDS :]
    data = build_batch([(b"k", b"v" * 40, (), 1)], codec=codec)
    split = compress(codec, plain[:20]) + compress(codec, plain[20:])
    assert fine(with_body(data, split)) is None
    assert walked(with_body(data, split)) == WalkResult(largest=1)


def test_a_window_that_readers_refuse_is_left_to_python() -> None:
    plain = build_batch([(b"k", b"v" * 40, (), 1)])[rb.RECORDS :]
    data = build_batch([(b"k", b"v" * 40, (), 1)], codec=Codec.ZSTD)
    block = (1 | len(plain) << 3).to_bytes(3, "little") + plain  # the last one, as it is

    def framed(exponent: int) -> bytes:
        return with_body(data, b"\x28\xb5\x2f\xfd\0" + bytes([exponent << 3]) + block)

    assert fine(framed(17)) == 1
    assert fine(framed(18)) is None


def test_long_batches_are_left_to_threads() -> None:
    noise = np.random.default_rng(1).bytes(60_000)
    assert fine(build_batch([(b"k", noise[:30_000], (), 1)], codec=Codec.LZ4)) == 1
    assert fine(build_batch([(b"k", noise, (), 1)], codec=Codec.LZ4)) is None
    for codec, room in (
        (Codec.SNAPPY, PLAIN_BYTES),
        (Codec.ZSTD, PLAIN_BYTES),
        (Codec.GZIP, GZIP_PLAIN_BYTES),
    ):
        assert fine(build_batch([(b"k", bytes(room - 100), (), 1)], codec=codec)) == 1
        assert fine(build_batch([(b"k", bytes(room), (), 1)], codec=codec)) is None

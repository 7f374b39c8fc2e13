"""Decompression of payloads: every codec, and never more than is allowed."""

import pytest

from kbroker.control.telemetry.service import plain
from kbroker.protocol.compression import Codec, compress
from kbroker.protocol.errors import ErrorCode, KafkaError


@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec_is_read(codec: Codec) -> None:
    data = bytes(range(256)) * 40
    assert plain(codec, compress(codec, data), len(data)) == data


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_bomb_is_too_large(codec: Codec) -> None:
    with pytest.raises(KafkaError) as refused:
        plain(codec, compress(codec, bytes(50 << 20)), 1 << 20)
    assert refused.value.code == ErrorCode.TELEMETRY_TOO_LARGE


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize("data", [b"garbage", b"\xff" * 40])
def test_damage_is_an_invalid_record(codec: Codec, data: bytes) -> None:
    with pytest.raises(KafkaError) as refused:
        plain(codec, data, 1 << 20)
    assert refused.value.code == ErrorCode.INVALID_RECORD

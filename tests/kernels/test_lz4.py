"""What the kernel makes of an lz4 frame is what the reference library makes of it, or nothing."""

import lz4.frame
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.kernels.lz4 import lz4_frame, xxh32
from tests.kernels.decoding import PLAIN, TEXT, damaged, plain_of


@pytest.mark.parametrize(
    ("text", "hashed"),
    [
        (b"", 0x02CC5D05),
        (b"a", 0x550D7456),
        (b"abc", 0x32D153FF),
        (b"Nobody inspects the spammish repetition", 0xE2293B2F),
    ],
)
def test_xxh32_has_the_known_values(text: bytes, hashed: int) -> None:
    data = np.frombuffer(text + b"\0", np.uint8)
    assert xxh32(data.ctypes.data, len(text)) == hashed


@settings(max_examples=150, deadline=None)
@given(
    plain=PLAIN,
    level=st.sampled_from([-5, 0, 9]),
    size=st.booleans(),
    checksum=st.booleans(),
    block=st.sampled_from([lz4.frame.BLOCKSIZE_MAX64KB, lz4.frame.BLOCKSIZE_MAX4MB]),
)
def test_output_of_encoders_is_decoded(
    plain: bytes, level: int, size: bool, checksum: bool, block: int
) -> None:
    frame = lz4.frame.compress(
        plain,
        compression_level=level,
        store_size=size,
        content_checksum=checksum,
        block_linked=False,
        block_size=block,
    )
    assert plain_of(lz4_frame, frame) == plain
    assert plain_of(lz4_frame, frame, max(len(plain) - 1, 0)) == (None if plain else b"")
    assert plain_of(lz4_frame, frame + b"x") is None


@pytest.mark.parametrize("options", [{"block_checksum": True}, {"block_linked": True}])
def test_other_features_are_for_the_library(options: dict[str, bool]) -> None:
    assert plain_of(lz4_frame, lz4.frame.compress(TEXT, **{"block_linked": False, **options})) is None


@settings(max_examples=600, deadline=None)
@given(plain=PLAIN, data=st.data(), checksum=st.booleans())
def test_damage_is_never_taken_for_something_else(plain: bytes, data: st.DataObject, checksum: bool) -> None:
    frame = damaged(lz4.frame.compress(plain, block_linked=False, content_checksum=checksum), data)
    found = plain_of(lz4_frame, frame)
    assert found is None or found == lz4.frame.decompress(frame)

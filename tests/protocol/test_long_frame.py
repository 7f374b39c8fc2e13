"""A long answer is encoded into parts, which are together what a short way gives."""

import time

import pytest

from kbroker.protocol import long_frame
from kbroker.protocol.codec import encode
from kbroker.protocol.frame import encode_long_response, encode_response
from kbroker.protocol.long_frame import PART_BYTES, LongFrame, TooLarge
from kbroker.protocol.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kbroker.protocol.slices import SLICE_NS, Work
from tests.callbacks import Tries

KEY, VERSION = 32, 4
SETTINGS = [DescribeConfigsResourceResult(f"setting-{number}", "value") for number in range(20)]


def answer(count: int) -> DescribeConfigsResponse:
    results = [DescribeConfigsResult(0, None, 2, f"t{number}", SETTINGS) for number in range(count)]
    return DescribeConfigsResponse(0, results)


def sliced(response: DescribeConfigsResponse) -> tuple[bytes | LongFrame, float]:
    """(frame, milliseconds of CPU of the longest slice)"""
    work = Work(lambda: encode_long_response(KEY, VERSION, 7, response))
    longest = 0
    while not work.done:
        began = time.thread_time_ns()
        found = work.run_slice()
        longest = max(longest, time.thread_time_ns() - began)
    return found, longest / 1e6


def test_the_parts_are_the_frame() -> None:
    response = answer(3000)
    found, _ = sliced(response)
    assert isinstance(found, LongFrame)
    assert len(found.parts) > 10
    assert max(map(len, found.parts)) < PART_BYTES + 1000
    assert bytes(found) == encode_response(KEY, VERSION, 7, response)
    assert len(found) == len(bytes(found))


def test_a_short_answer_is_in_one_piece() -> None:
    found, _ = sliced(answer(2))
    assert found == encode_response(KEY, VERSION, 7, answer(2))


@pytest.mark.slow
def test_no_slice_copies_what_there_is_already() -> None:
    tries = Tries(5 * SLICE_NS / 1e6)
    while tries.needed():
        found, longest_ms = sliced(answer(100_000))
        assert len(found) > 40 << 20
        tries.add(longest_ms)
    tries.check()


def test_an_answer_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_frame, "MAX_SLICED_BYTES", 1 << 20)
    with pytest.raises(TooLarge):
        sliced(answer(3000))
    assert len(encode(answer(3000), VERSION)) > 1 << 20

"""Promises of the slots: where each series lives, and that rows outlive the processes that write
them."""

import os
from itertools import pairwise

import numpy as np
import pytest

from kbroker.ipc.shared import Shared, Sizes
from kbroker.metrics import layout
from kbroker.metrics.slots import METRIC_WORDS, ROW_WORDS, Slots, bind, private
from tests.forked_child import ForkedChild

FRONT = {
    "kbroker_requests_total": layout.REQUESTS,
    "kbroker_request_errors_total": layout.ERRORS,
    "kbroker_request_bytes_total": layout.REQUEST_BYTES,
    "kbroker_response_bytes_total": layout.RESPONSE_BYTES,
    "kbroker_appended_bytes_total": layout.APPENDED_BYTES,
    "kbroker_appended_records_total": layout.APPENDED_RECORDS,
    "kbroker_appended_batches_total": layout.APPENDED_BATCHES,
    "kbroker_fetched_bytes_total": layout.FETCHED_BYTES,
    "kbroker_fetch_sent_bytes_total": layout.SENT_BY_SENDFILE,
    "kbroker_rejected_bytes_total": layout.REJECTED_BYTES,
    "kbroker_network_turns_total": layout.NETWORK_TURNS,
    "kbroker_network_stalls_total": layout.NETWORK_STALLS,
    "kbroker_idle_seconds_total": layout.IDLE_NS,
    "kbroker_drains_total": layout.DRAINS,
    "kbroker_drain_seconds": layout.DRAIN_SECONDS,
    "kbroker_append_seconds": layout.APPEND_SECONDS,
    "kbroker_parse_seconds": layout.PARSE_SECONDS,
    "kbroker_request_phase_seconds": layout.PHASE_SECONDS,
}


def test_the_numbers_that_kernels_compile_in_are_those_of_the_catalogue() -> None:
    assert {name: bind(name) for name in FRONT} == FRONT
    ends = [METRIC_WORDS[name].start + METRIC_WORDS[name].size for name in FRONT]
    assert max(ends) == layout.FRONT_WORDS


def test_no_two_series_share_a_word() -> None:
    spans = sorted((place.start, place.start + place.size) for place in METRIC_WORDS.values())
    assert all(end == start for (_, end), (start, _) in pairwise(spans))
    assert spans[0][0] == 0
    assert spans[-1][1] <= ROW_WORDS


def test_a_series_is_named_by_value_or_by_index() -> None:
    by_value = bind("kbroker_request_errors_total", api="Fetch", error="OFFSET_OUT_OF_RANGE")
    assert by_value == bind("kbroker_request_errors_total", api=1, error=2)
    assert by_value == layout.ERRORS + 1 * layout.ERROR_COUNT + 1 + 1


def test_unknown_names_and_values_are_errors() -> None:
    with pytest.raises(KeyError):
        bind("kbroker_no_such_total")
    with pytest.raises(KeyError):
        bind("kbroker_requests_total", topic="t")
    with pytest.raises(ValueError):
        bind("kbroker_requests_total", api="NoSuchApi")
    with pytest.raises(ValueError):
        bind("kbroker_requests_total", api=layout.API_COUNT)


def test_a_successor_continues_the_counts_of_a_killed_process() -> None:
    shared = Shared(Sizes(clients=1, workers=1, max_partitions=1, ring_entries=16, arena_bytes=4096))
    number = bind("kbroker_requests_total", api="Metadata", version=12)

    def count() -> None:
        slots = Slots(shared.metrics[0])
        slots.words[number] += 3
        slots.observe(bind("kbroker_append_seconds"), 150_000)
        os.kill(os.getpid(), 9)

    for _ in range(2):
        with ForkedChild(count) as child:
            assert child.wait() == -9
    assert shared.metrics[0, number] == 6
    assert shared.metrics[0, layout.APPEND_SECONDS + layout.HISTOGRAM_SUM] == 300_000


def test_gauges_of_a_dead_process_are_cleared_and_its_counters_stay() -> None:
    slots = private()
    connections = bind("kbroker_connections", listener=3)
    slots.words[connections] = 7
    slots.words[layout.APPENDED_BYTES] = 9
    slots.clear_gauges()
    assert slots.words[connections] == 0
    assert slots.words[layout.APPENDED_BYTES] == 9


def test_a_row_that_is_too_short_is_refused() -> None:
    with pytest.raises(ValueError):
        Slots(np.zeros(ROW_WORDS - 1, np.int64))

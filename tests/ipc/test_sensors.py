"""Sensors: one rate over all processes, over the last samples, in rows that make room for each
other."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.config.client_quotas import Bound
from kbroker.ipc.layout import SensorRow
from kbroker.ipc.sensors import Sensor, Sensors, sensor_of
from kbroker.ipc.shared import Shared, Sizes

SAMPLES = 4
WINDOW_MS = 1000


@pytest.fixture
def processes() -> tuple[Sensors, Sensors]:
    shared = Shared(Sizes(2, 1, 1, 8, 4096, quota_samples=SAMPLES))
    return Sensors(shared, 0, WINDOW_MS), Sensors(shared, 1, WINDOW_MS)


def sensor(limit: float = 100.0, name: str = "c") -> Sensor:
    found = sensor_of("producer_byte_rate", Bound(limit, "", name))
    assert found is not None
    return found


def test_samples_of_one_process_count_for_all(processes: tuple[Sensors, Sensors]) -> None:
    one, other = processes
    for process in processes:
        process.add(sensor(), 200, 10_000)
    assert one.throttle_ms(sensor(), 10_000) == other.throttle_ms(sensor(), 10_000) == 1000  # 400 / 100 - 3 s


def test_each_quota_of_a_client_has_a_sensor_with_the_limit_in_its_unit() -> None:
    bound = Bound(50.0, "u", "c")
    keys = ("producer_byte_rate", "consumer_byte_rate", "request_percentage")
    sensors = [sensor_of(key, bound, 2.0) for key in keys]
    assert {one.limit for one in sensors if one} == {100.0}
    assert len({(one.high, one.low) for one in sensors if one}) == 3
    assert sensor_of("producer_byte_rate", None) is None


def test_usage_within_the_limit_is_not_throttled(processes: tuple[Sensors, Sensors]) -> None:
    one, _ = processes
    one.add(sensor(), int(one.max_amount(sensor())), 10_000)
    assert one.throttle_ms(sensor(), 10_000) == 0
    one.add(sensor(), 1, 10_000)
    assert one.throttle_ms(sensor(), 10_000) > 0


def test_a_sample_that_is_subtracted_has_no_effect(processes: tuple[Sensors, Sensors]) -> None:
    one, _ = processes
    one.add(sensor(), 5000, 10_000)
    one.add(sensor(), -5000, 10_400)
    assert one.throttle_ms(sensor(), 10_400) == 0


def test_a_rate_is_that_of_all_samples_and_processes(processes: tuple[Sensors, Sensors]) -> None:
    one, other = processes
    assert one.rate(sensor(), 10_500) == 0
    one.add(sensor(), 300, 10_000)
    other.add(sensor(), 50, 7_000)
    assert one.rate(sensor(), 10_500) == 100  # three windows and a half
    assert one.rate(sensor(), 11_500) == pytest.approx(300 / 3.5)


def test_other_clients_are_counted_apart(processes: tuple[Sensors, Sensors]) -> None:
    one, _ = processes
    one.add(sensor(name="a"), 5000, 10_000)
    assert one.throttle_ms(sensor(name="b"), 10_000) == 0


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 700), st.integers(0, 300)), min_size=1, max_size=60)
)
def test_the_rate_is_that_of_the_samples(uses: list[tuple[int, int, int]]) -> None:
    shared = Shared(Sizes(2, 1, 1, 8, 4096, quota_samples=SAMPLES))
    both = Sensors(shared, 0, WINDOW_MS), Sensors(shared, 1, WINDOW_MS)
    now_ms = 50_000
    counted: list[tuple[int, int]] = []
    for process, passed_ms, amount in uses:
        now_ms += passed_ms
        both[process].add(sensor(), amount, now_ms)
        counted.append((now_ms // WINDOW_MS, amount))
        window = now_ms // WINDOW_MS
        total = sum(amount for at, amount in counted if at > window - SAMPLES)
        elapsed_ms = max(1, (SAMPLES - 1) * WINDOW_MS + now_ms % WINDOW_MS)
        expected = max(0, round((total * 1000 / elapsed_ms - 100) / 100 * elapsed_ms))
        assert both[0].throttle_ms(sensor(), now_ms) == expected


def test_a_full_neighbourhood_drops_the_longest_idle_client(processes: tuple[Sensors, Sensors]) -> None:
    one, _ = processes
    crowd = [Sensor(100.0, high, SensorRow.SENSORS * high) for high in range(1, SensorRow.WAYS + 2)]
    for at, each in enumerate(crowd):
        one.add(each, 5000, 10_000 + at * WINDOW_MS // 8)
    now_ms = 10_000 + len(crowd) * WINDOW_MS // 8
    throttled = [one.throttle_ms(each, now_ms) > 0 for each in crowd]
    assert throttled.count(False) == 1
    assert throttled.index(False) < 8

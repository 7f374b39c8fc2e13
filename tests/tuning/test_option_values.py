"""Options of `kbroker tune`: their bounds, their units, and the fields of a workload."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from tuning.option_values import (
    BOUNDS,
    amount_of,
    bounded,
    check_writable,
    percent_of,
    rate_of,
    refuse_empty,
    retention_of,
    workload_of_options,
)
from tuning.quantity import WrongQuantity

OPTIONS = (
    *("rate", "retention", "partitions", "consumers", "lagging", "lag", "copies", "connections"),
    *("batch", "remote", "rtt", "durable", "tls"),
)
NOTHING: dict[str, object] = dict.fromkeys(OPTIONS)


@pytest.mark.parametrize("option", sorted(BOUNDS))
def test_both_bounds_of_a_number_may_be_given(option: str) -> None:
    low, high = BOUNDS[option]
    assert [bounded(option, each) for each in (None, low, high)] == [None, low, high]
    for wrong in (low - 0.001, high * 1.001, math.nan):
        with pytest.raises(WrongQuantity, match=f"--{option} must be from"):
            bounded(option, wrong)


def test_an_amount_or_a_rate_of_nothing_is_refused() -> None:
    assert (amount_of("batch", "1"), amount_of("batch", None)) == (1, None)
    assert (rate_of("rate", "1"), rate_of("rate", None)) == (1, None)
    calls: tuple[Callable[[str, str | None], float | None], ...] = (amount_of, rate_of)
    for call in calls:
        with pytest.raises(WrongQuantity, match="--batch must be more than nothing"):
            call("batch", "0")
        with pytest.raises(WrongQuantity, match="--batch: 'x' is not"):
            call("batch", "x")


@pytest.mark.parametrize(
    ("text", "value"), [(None, None), ("5%", 5), (" 5 ", 5), ("0.01%", 0.01), ("1000", 1000)]
)
def test_a_percentage_may_have_its_sign(text: str | None, value: float | None) -> None:
    assert percent_of("growth", text) == value


@pytest.mark.parametrize("text", ["0", "1001%", "x", "5%%", "nan"])
def test_other_percentages_are_refused(text: str) -> None:
    with pytest.raises(WrongQuantity, match="--growth"):
        percent_of("growth", text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [(None, None), ("forever", math.inf), ("INF", math.inf), ("-1", math.inf), ("2d", 172_800), ("5", 5)],
)
def test_retention_may_be_endless(text: str | None, seconds: float | None) -> None:
    assert retention_of("retention", text) == seconds


def test_an_empty_directory_is_refused() -> None:
    refuse_empty(None)
    refuse_empty(["a", "."])
    with pytest.raises(WrongQuantity, match="--dir is empty"):
        refuse_empty(["a", ""])


def test_a_file_of_a_result_is_left_as_it_was(tmp_path: Path) -> None:
    check_writable(None)
    check_writable(tmp_path / "new")
    assert not (tmp_path / "new").exists()
    (tmp_path / "old").write_text("kept")
    check_writable(tmp_path / "old")
    assert (tmp_path / "old").read_text() == "kept"
    with pytest.raises(OSError, match="No such file"):
        check_writable(tmp_path / "none" / "new")


def test_each_option_is_the_field_of_its_meaning() -> None:
    assert set(workload_of_options(NOTHING).values()) == {None}
    given: dict[str, object] = {
        "rate": "2MB/s",
        "retention": "1h",
        "partitions": 3,
        "consumers": 4,
        "lagging": 5,
        "lag": "6s",
        "copies": 7,
        "connections": 8,
        "batch": "9kB",
        "remote": False,
        "rtt": 10.5,
        "durable": True,
        "tls": True,
    }
    assert workload_of_options(given) == {
        "write_rate": 2e6,
        "retention_s": 3600,
        "partitions": 3,
        "groups": 4,
        "lagging_groups": 5,
        "lag_s": 6,
        "copies": 7,
        "connections": 8,
        "batch_bytes": 9000,
        "remote_clients": False,
        "rtt_ms": 10.5,
        "durable": True,
        "tls": True,
    }

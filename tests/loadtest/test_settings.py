"""A wrong option is answered by one sentence that names it and what is allowed."""

import math
from typing import Any

import pytest

from loadtest.settings import Settings, WrongSetting, from_json, parse_record_bytes

WRONG = [
    ({"seconds": 0}, "--seconds 0"),
    ({"seconds": math.inf}, "--seconds inf"),
    ({"rate": math.inf}, "--rate inf"),
    ({"linger_ms": -1}, "--linger-ms -1"),
    ({"consume_rate": math.nan}, "--consume-rate nan"),
    ({"churn_seconds": -1}, "--churn-seconds -1"),
    ({"transaction_records": 10**9}, "--transaction-records 1000000000"),
    ({"shape": "zigzag"}, "steady | ramp"),
    ({"record_bytes": (3, 3)}, "--record-bytes 3-3"),
    ({"compression": "rar"}, "zstd"),
    ({"acks": "2"}, "all | 1 | 0"),
    ({"plain": 0, "idempotent": 0, "transactional": 0, "copiers": 0}, "at least one producer"),
    ({"transactional": 0, "copiers": 1}, "--copiers 1"),
    ({"keys": 0}, "--keys 0"),
]


@pytest.mark.parametrize(("values", "text"), WRONG, ids=[text for _, text in WRONG])
def test_wrong_values_are_named(values: dict[str, Any], text: str) -> None:
    with pytest.raises(WrongSetting) as refused:
        Settings(**values)
    assert text in str(refused.value)


def test_settings_survive_the_way_to_the_players() -> None:
    settings = Settings(rate=5, record_bytes=(50, 60), shape="spike")
    assert from_json(settings.to_json()) == settings


def test_sizes_are_a_number_or_a_range() -> None:
    assert parse_record_bytes("256") == (256, 256)
    assert parse_record_bytes("100-1000") == (100, 1000)
    with pytest.raises(WrongSetting, match="two with a dash"):
        parse_record_bytes("big")


@pytest.mark.parametrize(
    ("name", "low", "high", "below", "above"),
    [
        ("seconds", 0.001, 8_640_000, 0, 8_640_001),
        ("rate", 0, 1e8, -0.1, 1e8 + 1),
        ("keys", 1, 9_999_999, 0, 10_000_000),
        ("skew", 0, 5, -0.1, 5.1),
        ("partitions", 1, 1000, 0, 1001),
        ("abort_share", 0, 1, -0.1, 1.1),
        ("transaction_records", 1, 1_000_000, 0, 1_000_001),
        ("linger_ms", 0, 900_000, -0.1, 900_001),
        ("consume_rate", 0, 1e8, -0.1, 1e8 + 1),
        ("churn_seconds", 0, 8_640_000, -0.1, 8_640_001),
        ("workers", 1, 64, 0, 65),
        ("plain", 0, 1000, -1, 1001),
        ("idempotent", 0, 1000, -1, 1001),
        ("copiers", 0, 1000, -1, 1001),
        ("consumers", 0, 1000, -1, 1001),
        ("sharers", 0, 1000, -1, 1001),
    ],
)
def test_both_bounds_of_a_number_are_allowed(
    name: str, low: float, high: float, below: float, above: float
) -> None:
    for value in (low, high):
        allowed: dict[str, Any] = {name: value}
        assert getattr(Settings(**allowed), name) == value
    for value in (below, above):
        refused: dict[str, Any] = {name: value}
        with pytest.raises(WrongSetting, match=f"--{name.replace('_', '-')} "):
            Settings(**refused)


def test_sizes_of_records_have_bounds() -> None:
    for sizes in ((40, 40), (40, 1_000_000), (1_000_000, 1_000_000)):
        assert Settings(record_bytes=sizes).record_bytes == sizes
    for sizes in ((39, 100), (101, 100), (100, 1_000_001)):
        with pytest.raises(WrongSetting, match="--record-bytes"):
            Settings(record_bytes=sizes)


def test_a_load_has_a_topic_for_each_kind_of_its_producers() -> None:
    assert Settings().modes() == ["plain", "idempotent", "transactional", "copied"]
    only = Settings(plain=0, idempotent=0, transactional=2, copiers=0)
    assert (only.modes(), only.producers) == (["transactional"], 2)
    assert Settings(plain=3, idempotent=4, transactional=5).producers == 12


def test_settings_of_a_later_version_are_read() -> None:
    content = Settings(rate=5).to_json() | {"of_later": 1, "record_bytes": [50, 60]}
    assert from_json(content) == Settings(rate=5, record_bytes=(50, 60))

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

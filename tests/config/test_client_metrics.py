"""Subscriptions of client metrics: what may be set, and which clients they choose."""

import pytest

from kbroker.config.client_metrics import BadMetricsRequest, ClientMetricsConfig
from kbroker.config.setting import ConfigError


def test_an_empty_subscription_asks_for_nothing_every_five_minutes() -> None:
    config = ClientMetricsConfig.resolve({})
    assert (config.interval_ms, config.metrics, dict(config.match)) == (300_000, (), {})
    assert config.matches({"client_id": "any"})


def test_a_client_must_match_every_pattern_completely() -> None:
    config = ClientMetricsConfig.resolve({"match": "client_id=abc.*,client_software_name=librdkafka"})
    assert config.matches({"client_id": "abcd", "client_software_name": "librdkafka"})
    assert not config.matches({"client_id": "xabc", "client_software_name": "librdkafka"})
    assert not config.matches({"client_id": "abc"})


def test_a_pattern_is_matched_in_linear_time() -> None:
    config = ClientMetricsConfig.resolve({"match": "client_id=(a+)+$"})
    assert not config.matches({"client_id": "a" * 249 + "!"})


@pytest.mark.parametrize(
    "entry", ["foo=1", "client_id", "client_id=", "client_id=[", "client_id=a=b", r"client_id=(a)\1"]
)
def test_a_pattern_kafka_refuses_is_refused(entry: str) -> None:
    with pytest.raises(ConfigError) as error:
        ClientMetricsConfig.resolve({"match": entry})
    assert str(error.value) == f"Illegal client matching pattern: {entry}"
    assert not isinstance(error.value, BadMetricsRequest)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("nope", "1", "Unknown client metrics configuration: nope"),
        ("interval.ms", "99", "Invalid value 99 for interval.ms, interval must be between 100 and 3600000 (1 hour)"),
    ],
)  # fmt: skip
def test_some_mistakes_are_bad_requests(name: str, value: str, text: str) -> None:
    with pytest.raises(BadMetricsRequest) as error:
        ClientMetricsConfig.resolve({name: value})
    assert str(error.value) == text


@pytest.mark.parametrize(("accepted", "refused"), [(100, 99), (3_600_000, 3_600_001)])
def test_an_interval_is_a_tenth_of_a_second_to_an_hour(accepted: int, refused: int) -> None:
    assert ClientMetricsConfig.resolve({"interval.ms": str(accepted)}).interval_ms == accepted
    with pytest.raises(BadMetricsRequest, match=f"Invalid value {refused} for interval.ms"):
        ClientMetricsConfig.resolve({"interval.ms": str(refused)})


@pytest.mark.parametrize(
    "name",
    [
        "client_id",
        "client_instance_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    ],
)
def test_clients_are_chosen_by_each_of_kafkas_attributes(name: str) -> None:
    config = ClientMetricsConfig.resolve({"match": f" {name} = a.* "})
    assert config.matches({name: "ab"})
    assert not config.matches({name: "ba"})
    assert not config.matches({})

"""Checks refuse what Kafka's validators refuse, with their texts (seen from Apache Kafka 4.3.1)."""

import pytest

from kbroker.config.broker import BROKER
from kbroker.config.checks import (
    ConnectionsPerIp,
    GzipLevel,
    KnownClass,
    NotEmpty,
    OffsetReset,
    PowerOfTwo,
    ThrottledReplicas,
    at_least,
    between,
    connections_per_ip,
    list_of,
    listen_address,
    one_of,
    one_of_any_case,
)
from kbroker.config.setting import Check, ConfigError, Value

REPLICAS = "k must be the literal '*' or a list of replicas in the following format: "
REPLICAS += "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
CLASS = "Class x.Y could not be found. kbroker loads no Java plugins; allowed: [unset, a.B]"
RESET = "Invalid value `by_duration:-PT1H` for configuration k. "
RESET += "The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."


@pytest.mark.parametrize(
    ("check", "value", "text"),
    [
        (at_least(1), 0, "Invalid value 0 for configuration k: Value must be at least 1"),
        (at_least(1), None, "Invalid value null for configuration k: Value must be non-null"),
        (between(0, 1), 1.5, "Invalid value 1.5 for configuration k: Value must be no more than 1"),
        (one_of("a", "b"), "A", "Invalid value A for configuration k: String must be one of: a, b"),
        (
            one_of_any_case("UP", "DOWN"),
            "x",
            "Invalid value x for configuration k: String must be one of (case insensitive): UP, DOWN",
        ),
        (list_of("a"), ("a", "b"), "Invalid value b for configuration k: String must be one of: a"),
        (list_of("a"), ("a", ""), "Configuration 'k' values must not be empty."),
        (list_of("a"), ("b", ""), "Invalid value b for configuration k: String must be one of: a"),
        (
            list_of("a", "b", may_be_empty=False),
            (),
            "Configuration 'k' must not be empty. Valid values include: [a, b]",
        ),
        (
            list_of(may_be_empty=False),
            (),
            "Configuration 'k' must not be empty. Valid values include: any non-empty value",
        ),
        (list_of(), None, "Configuration 'k' values must not be null."),
        (NotEmpty(), "", "Invalid value  for configuration k: String must be non-empty"),
        (GzipLevel(), 0, "Invalid value 0 for configuration k: Value must be between 1 and 9 or equal to -1"),
        (ThrottledReplicas(), ("0:1", "x"), f"Invalid value [0:1, x] for configuration k: {REPLICAS}"),
        (ThrottledReplicas(), ("none",), f"Invalid value [none] for configuration k: {REPLICAS}"),
        (ThrottledReplicas(), ("*", "*"), f"Invalid value [*, *] for configuration k: {REPLICAS}"),
        (
            OffsetReset(),
            "by_duration:-PT1H",
            f"Invalid value by_duration:-PT1H for configuration k: {RESET}",
        ),
        (
            KnownClass(("a.B",)),
            "x.Y",
            f"Invalid value x.Y for configuration k: {CLASS}",
        ),
        (
            PowerOfTwo(16, 64),
            48,
            "Invalid value 48 for configuration k: Value must be a power of two, 16 to 64",
        ),
        (
            listen_address,
            "9404",
            "Invalid value 9404 for configuration k: Value must be host:port, [address]:port, or empty",
        ),
        (ConnectionsPerIp(), "h", "Error parsing configuration property 'k': 'h' is not host:count"),
        (ConnectionsPerIp(), "a b:5", "k contains invalid addresses : a b"),
    ],
)
def test_invalid_values_are_refused_with_kafkas_text(check: Check, value: Value, text: str) -> None:
    with pytest.raises(ConfigError) as error:
        check("k", value)
    assert str(error.value) == text


@pytest.mark.parametrize(
    ("check", "values"),
    [
        (between(-131072, 22), (-131072, 0, 22)),
        (GzipLevel(), (-1, 1, 9)),
        (one_of_any_case("UP"), ("up", "Up")),
        (list_of("a", "b"), ((), ("b", "a"))),
        (list_of(may_be_null=True), (None, ("x",))),
        (ThrottledReplicas(), ((), ("",), ("*",), ("*", ""), ("0:1", "", "12:3"))),
        (
            OffsetReset(),
            ("earliest", "latest", "by_duration:PT1H", "by_duration:P1DT2.5S", "by_duration:p1d"),
        ),
        (KnownClass(("a.B",)), (None, "", "a.B")),
        (PowerOfTwo(16, 64), (16, 64)),
        (listen_address, ("", ":0", "127.0.0.1:9404", "[::1]:9404", "host-1:80")),
        (NotEmpty(), (None, "x")),
    ],
)
def test_valid_values_are_accepted(check: Check, values: tuple[Value, ...]) -> None:
    for value in values:
        check("k", value)


@pytest.mark.parametrize(
    "text", ["by_duration:", "by_duration:P", "by_duration:PT", "by_duration:x", "none", ""]
)
def test_an_offset_reset_without_a_duration_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        OffsetReset()("k", text)


def test_connection_limits_are_read_with_addresses_of_both_kinds() -> None:
    limits = connections_per_ip("k", "127.0.0.1:5, host:7 ,[::1]:9,")
    assert limits == {"127.0.0.1": 5, "host": 7, "[::1]": 9}


def test_assignors_are_those_of_kafka_by_their_names_or_classes() -> None:
    simple = "org.apache.kafka.coordinator.group.assignor.SimpleAssignor"
    for text in ("simple", simple):
        assert BROKER["group.share.assignors"].parse(text) == (text,)
    with pytest.raises(ConfigError, match="must contain exactly one assignor, but found 2"):
        BROKER["group.share.assignors"].parse(f"simple,{simple}")
    for name in ("group.share.assignors", "group.consumer.assignors"):
        for text in ("other", "org.example.Assignor", "simple,other", ""):
            with pytest.raises(ConfigError):
                BROKER[name].parse(text)
    assert BROKER["group.consumer.assignors"].parse("range") == ("range",)

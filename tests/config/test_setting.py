"""Parsing and rendering follow ConfigDef; the texts were seen from Apache Kafka 4.3.1."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.config.setting import (
    BOOLEAN,
    CLASS,
    DOUBLE,
    DOUBLE_MAX,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    PASSWORD,
    SHORT,
    STRING,
    ConfigError,
    Setting,
    Type,
    Value,
    java_double,
    java_int,
    parse_type,
    render,
    table,
)
from kbroker.config.topic import TOPIC


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (BOOLEAN, " TRUE ", True),
        (BOOLEAN, "false", False),
        (INT, "+2097152", 2097152),
        (INT, " -5 ", -5),
        (LONG, "-" + "0" * 5000 + "5", -5),
        (INT, "0", 0),
        (INT, "-2147483648", -(2**31)),
        (SHORT, "32767", 32767),
        (LONG, "9223372036854775807", LONG_MAX),
        (DOUBLE, "0.5f", 0.5),
        (DOUBLE, "1e3", 1000.0),
        (DOUBLE, ".5", 0.5),
        (DOUBLE, "1.d", 1.0),
        (DOUBLE, "\t 1F ", 1.0),
        (DOUBLE, "0x1.8p1", 3.0),
        (DOUBLE, "-0X.8P+1d", -1.0),
        (DOUBLE, "0xfp0f", 15.0),
        (DOUBLE, "1e400", float("inf")),
        (DOUBLE, "-0x1p99999", float("-inf")),
        (DOUBLE, "-Infinity", float("-inf")),
        (LIST, "a b \t,\r\n c , d", ("a b", "c", "d")),
        (DOUBLE, "1.7976931348623157E308", DOUBLE_MAX),
        (LIST, "delete, compact", ("delete", "compact")),
        (LIST, "  ", ()),
        (LIST, "a,", ("a", "")),
        (STRING, "  a b ", "a b"),
        (CLASS, "a.B", "a.B"),
        (PASSWORD, " secret ", "secret"),
    ],
)
def test_text_becomes_the_value_kafka_reads(kind: Type, text: str, value: Value) -> None:
    assert parse_type("k", text, kind) == value


@pytest.mark.parametrize(
    ("kind", "text", "why"),
    [
        (BOOLEAN, "yes", "Expected value to be either true or false"),
        (INT, "2147483648", "Not a number of type INT"),
        (LONG, "9" * 5000, "Not a number of type LONG"),
        (LONG, "9" * 19, "Not a number of type LONG"),
        (INT, "1_000", "Not a number of type INT"),
        (INT, "0x10", "Not a number of type INT"),
        (INT, "1e9", "Not a number of type INT"),
        (INT, "٣", "Not a number of type INT"),
        (INT, "", "Not a number of type INT"),
        (SHORT, "32768", "Not a number of type SHORT"),
        (LONG, "99999999999999999999", "Not a number of type LONG"),
        (DOUBLE, "abc", "Not a number of type DOUBLE"),
        (DOUBLE, "nan", "Not a number of type DOUBLE"),
        (DOUBLE, "NaN", "Not a number of type DOUBLE"),
        (DOUBLE, "1_0", "Not a number of type DOUBLE"),
        (DOUBLE, "0x1.8", "Not a number of type DOUBLE"),
        (DOUBLE, "0xp1", "Not a number of type DOUBLE"),
        (DOUBLE, "Infinityd", "Not a number of type DOUBLE"),
        (DOUBLE, "1" * 100_000 + "x", "Not a number of type DOUBLE"),
        (DOUBLE, "0x" + "1" * 100_000, "Not a number of type DOUBLE"),
    ],
)
def test_a_bad_text_is_refused_with_kafkas_words(kind: Type, text: str, why: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_type("some.key", text, kind)
    assert str(error.value) == f"Invalid value {text} for configuration some.key: {why}"


def test_a_long_gap_in_a_list_is_read_once() -> None:
    """Each of its blanks was tried as the first one before a comma."""
    gap = " " * 100_000
    assert parse_type("k", f"a{gap}b{gap},c", LIST) == (f"a{gap}b", "c")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5"),
        (0.9, "0.9"),
        (0.0, "0.0"),
        (DOUBLE_MAX, "1.7976931348623157E308"),
        (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (9999999.0, "9999999.0"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (-2.5e-10, "-2.5E-10"),
        (float("inf"), "Infinity"),
    ],
)
def test_a_double_looks_as_java_prints_it(value: float, text: str) -> None:
    assert java_double(value) == text


def test_rendering_is_what_describe_shows() -> None:
    assert render(True) == "true"
    assert render(("a", "b")) == "a,b"
    assert render(()) == ""
    assert render(1, DOUBLE) == "1.0"
    assert render(None) is None


@given(st.floats(allow_nan=False))
def test_a_rendered_double_reads_back(value: float) -> None:
    assert parse_type("k", java_double(value), DOUBLE) == value


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_rendered_long_reads_back(value: int) -> None:
    assert parse_type("k", render(value), LONG) == value


@given(st.text())
def test_any_text_is_a_value_or_a_config_error(text: str) -> None:
    for kind in Type:
        with suppress(ConfigError):
            parse_type("k", text, kind)


def test_a_list_drops_what_is_repeated() -> None:
    assert Setting("k", LIST, ()).parse("b,a,b") == ("b", "a")
    assert Setting("k", LIST, (), repeats=True).parse("b,a,b") == ("b", "a", "b")


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_throttled_replicas_may_repeat(side: str) -> None:
    """Kafka's check of them is no ValidList."""
    row = TOPIC[f"{side}.replication.throttled.replicas"]
    assert render(row.parse("0:1,0:1")) == "0:1,0:1"
    with pytest.raises(ConfigError, match="must be the literal"):
        row.parse("*,*")


def test_a_name_listed_twice_is_found_at_once() -> None:
    with pytest.raises(ValueError, match="listed twice"):
        table((Setting("k", INT, 1),), (Setting("k", INT, 2),))


def test_only_passwords_are_sensitive() -> None:
    assert [kind for kind in Type if Setting("k", kind, None).sensitive] == [PASSWORD]


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("-0", 0), ("+7", 7), ("007", 7), ("2147483647", 2**31 - 1), ("-2147483648", -(2**31))],
)
def test_an_int_is_read_as_java_does(text: str, number: int) -> None:
    assert java_int(text) == number


@pytest.mark.parametrize(
    "text", ["", "+", " 1", "1 ", "1_0", "٣", "2147483648", "-2147483649", "1.0", "9" * 30]
)
def test_another_text_is_no_int_of_java(text: str) -> None:
    with pytest.raises(ValueError):
        java_int(text)

"""The setting that was probably meant is named, and none when none is close."""

from kbroker.config.broker import BROKER
from kbroker.config.close_names import suggestion


def test_a_close_name_is_suggested() -> None:
    assert suggestion("num.io.thread", BROKER) == "; did you mean num.io.threads?"
    assert suggestion("listener", BROKER) == "; did you mean listeners?"


def test_of_several_close_names_the_one_with_fewest_typos_is_suggested() -> None:
    """`log.dirz` is one character away from two settings."""
    assert suggestion("log.dirz", BROKER) == "; did you mean log.dirs?"
    assert suggestion("log.di", BROKER) == "; did you mean log.dir?"
    assert suggestion("log.retention.bytez", BROKER) == "; did you mean log.retention.bytes?"


def test_a_far_name_is_not_suggested() -> None:
    assert suggestion("x", BROKER) == ""
    assert suggestion("anything", ()) == ""


def test_a_very_long_name_is_not_compared() -> None:
    assert suggestion("num.io.threads" + "s" * 100, ["num.io.threads" + "s" * 99]) == ""

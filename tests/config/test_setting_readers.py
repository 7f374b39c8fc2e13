"""Every setting that the tables list has a reader, or is listed as without effect."""

from pathlib import Path

import pytest

from kbroker.config.broker import BROKER, DYNAMIC_ONLY
from kbroker.config.client_metrics import CLIENT_METRICS
from kbroker.config.group import GROUP
from kbroker.config.inert import INERT_GROUPS, INERT_REASON, INERT_TOPIC_REASON
from kbroker.config.topic import TOPIC
from tests.config.setting_readers import Readers, sources

NO_READER = "read it, or move it to kbroker/config/inert.py with its reason"
BY_SUFFIX = {"sasl.login.callback.handler.class", "sasl.login.class"}
"""Their keys may have the name of a SASL mechanism, which is all that is known of them."""


@pytest.fixture(scope="module")
def readers() -> Readers:
    return Readers(sources())


def test_every_setting_of_the_broker_is_read_or_listed_as_without_effect(readers: Readers) -> None:
    working = [name for name in (*BROKER, *DYNAMIC_ONLY) if name not in INERT_REASON]
    assert [name for name in working if not readers.of_broker(name)] == [], NO_READER


def test_every_setting_of_topics_is_read_or_listed_as_without_effect(readers: Readers) -> None:
    working = [name for name in TOPIC if name not in INERT_TOPIC_REASON]
    assert [name for name in working if not readers.of_topic(name)] == [], NO_READER


def test_every_setting_of_groups_and_of_client_metrics_is_read(readers: Readers) -> None:
    assert [name for name in (*GROUP, *CLIENT_METRICS) if not readers.of(name)] == [], NO_READER


def test_settings_that_are_listed_as_without_effect_have_no_reader(readers: Readers) -> None:
    plugins = {row.name for group in INERT_GROUPS if group.title == "Plug-ins" for row in group.rows}
    silent = [name for name in INERT_REASON if name not in BY_SUFFIX | plugins]
    assert {name: readers.of(name) for name in silent if readers.of(name)} == {}
    assert [name for name in INERT_TOPIC_REASON if readers.of_topic(name)] == []


MODULE = '''
"""A docstring with queued.max.requests."""
from typing import Final
PREFIX: Final = "a.prefix."
SYNONYM = {"x": "only.a.synonym"}
ROWS = (Setting("only.a.row", INT, 1),)
def read(config, kind):
    """only.in.a.docstring"""
    config.get_int("a.constant")
    for kind in ("first", "second"):
        config.get_int(f"group.{kind}.max.size")
    config.of_listener("L", PREFIX + "suffix")
    return [config.of_listener("L", PREFIX + name) for name in ("key.one",)], topic.a_topic_row
'''


@pytest.mark.parametrize(
    ("setting", "is_read"),
    [
        ("a.constant", True),
        ("group.first.max.size", True),
        ("group.third.max.size", False),
        ("a.prefix.suffix", True),
        ("a.prefix.key.one", True),
        ("a.prefix.key.two", False),
        ("only.a.synonym", False),
        ("only.a.row", False),
        ("only.in.a.docstring", False),
        ("queued.max.requests", False),
    ],
)
def test_readers_are_found_by_constants_and_composed_names(
    tmp_path: Path, setting: str, is_read: bool
) -> None:
    (tmp_path / "module.py").write_text(MODULE)
    assert bool(Readers([tmp_path / "module.py"]).of(setting)) is is_read
    assert Readers([tmp_path / "module.py"]).of_topic("a.topic.row")


def test_the_tables_and_the_commands_are_no_readers(tmp_path: Path) -> None:
    for room, name in (("config", "crosschecks"), ("config", "alter"), ("cli", "client"), ("net", "reader")):
        (tmp_path / room).mkdir(exist_ok=True)
        (tmp_path / room / f"{name}.py").write_text("")
    assert [path.stem for path in sources(tmp_path)] == ["reader"]

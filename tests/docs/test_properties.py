"""Every server.properties of the pages is one that a broker takes: known settings, values within
their bounds."""

import re
from pathlib import Path

import pytest

from kbroker.cli.client_properties import to_librdkafka
from kbroker.config import properties
from kbroker.config.broker import BROKER, BrokerConfig
from tests.docs.blocks import ROOT, Block, blocks, pages

ALL = [block for page in pages() for block in blocks(page) if block.language == "properties"]
ANNOTATED = ROOT / "docs" / "server-properties.md"
COMMENTED_OUT = re.compile(r"#([a-z][\w.]*=.*)$")


def is_of_broker(block: Block) -> bool:
    """Whether it is a server.properties: one with another name has listeners."""
    return block.argument in ("", "server.properties") or "listeners=" in block.text


def place(block: Block) -> str:
    return f"{block.page}:{block.line}"


def pairs(block: Block, folder: Path, commented: bool = False) -> dict[str, str]:
    """The settings of a block, on request with those that it has as comments."""
    lines = [COMMENTED_OUT.sub(r"\1", line) if commented else line for line in block.lines]
    file = folder / "server.properties"
    file.write_text("\n".join(lines) + "\n")
    return properties.read(file)


@pytest.mark.parametrize("block", [one for one in ALL if is_of_broker(one)], ids=place)
def test_a_broker_takes_the_settings_of_a_page(block: Block, tmp_path: Path) -> None:
    settings = pairs(block, tmp_path)
    if "config.providers" in settings:  # a secret that is not on this machine
        settings = {key: value for key, value in settings.items() if not value.startswith("${")}
    _, warnings = BrokerConfig.load({"log.dirs": "/d", **settings}, {})
    assert not warnings


@pytest.mark.parametrize("block", [one for one in ALL if not is_of_broker(one)], ids=place)
def test_a_client_takes_the_settings_of_a_page(block: Block, tmp_path: Path) -> None:
    assert "security.protocol" in to_librdkafka(pairs(block, tmp_path))


def test_the_annotated_file_names_settings_of_the_table(tmp_path: Path) -> None:
    block = next(one for one in blocks(ANNOTATED) if one.argument == "server.properties")
    settings = pairs(block, tmp_path, commented=True)
    assert len(settings) >= 15
    assert not set(settings) - set(BROKER)
    _, warnings = BrokerConfig.load(settings, {})
    assert not warnings


def test_every_setting_of_the_annotated_file_has_a_comment() -> None:
    block = next(one for one in blocks(ANNOTATED) if one.argument == "server.properties")
    paragraphs = block.text.strip().split("\n\n")
    assert all(paragraph.startswith("# ") for paragraph in paragraphs)

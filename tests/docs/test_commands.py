"""Every command of the pages runs as it is written, or says why it cannot run in a test."""

import os
import re
from pathlib import Path

import pytest

from docs.generated import ROOT
from tests.docs.blocks import WITH_JAVA, Block, blocks, by_hand, pages
from tests.docs.session import Session, available, placed
from tests.peer.java import find_java

# Blocks that no test runs. Each gives its reason; the number may only shrink.
NUMBER_NOT_RUN = 16
LANGUAGES = ("sh", "console", "python", "properties", "ini", "yaml", "text")
A_COMMAND = re.compile(
    r"\s*(\$ |kbroker |make |python\S* |\.venv/|curl |git |pip |podman |docker |kafka-\S+\.sh |sudo |systemctl |spark-)"
)

ALL = [block for page in pages() for block in blocks(page)]
RUNNING = [page for page in pages() if any(block.runs for block in blocks(page))]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.compat
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", RUNNING, ids=name)
def test_the_commands_of_a_page_run(page: Path, tmp_path: Path) -> None:
    if why := available():
        assert not os.environ.get("CI"), why
        pytest.skip(why)
    if WITH_JAVA in page.read_text() and find_java() is None:
        pytest.skip("no Java: its keytool makes key stores")
    session = Session(page, tmp_path)
    session.run()
    assert session.code == 0, session.failure()
    for block, printed in zip(session.blocks, session.output[1:], strict=True):
        assert missing(block.output if block.language == "console" else [], printed) == [], (
            f"{block}\n{printed}"
        )
    assert "Traceback (most recent call last)" not in session.logs()


def missing(expected: list[str], printed: str) -> list[str]:
    """Lines that a page shows and the command did not print in this order."""
    rest = iter(line.rstrip() for line in printed.splitlines())
    return [line for line in expected if line != "..." and line.rstrip() not in rest]


def test_blocks_that_do_not_run_say_why() -> None:
    skipped = [block for block in ALL if block.role == "not run"]
    assert all(len(block.argument) > 5 for block in skipped)
    assert len(skipped) == NUMBER_NOT_RUN, f"{len(skipped)} blocks are not run"


def test_a_block_of_another_test_names_it_and_its_page() -> None:
    """The test names the page, so that it is found when the block changes."""
    others = [block for block in ALL if block.role == "run by"]
    assert others
    assert not [b for b in others if b.page not in (ROOT / b.argument).read_text()]


def test_every_block_has_a_language() -> None:
    assert not [f"{block.page}:{block.line}" for block in ALL if block.language not in LANGUAGES]


@pytest.mark.parametrize("page", [page for page in pages() if by_hand(page)], ids=name)
def test_commands_are_in_fenced_blocks(page: Path) -> None:
    """An indented block, or one of text, would run in no test."""
    fenced = {n for b in blocks(page) for n in range(b.line, b.line + len(b.lines) + 2)}
    loose = [
        f"{number}: {line}"
        for number, line in enumerate(page.read_text().splitlines(), 1)
        if number not in fenced and line.startswith("    ") and A_COMMAND.match(line)
    ]
    hidden = [
        f"{b.line}: {line}"
        for b in blocks(page)
        if b.language == "text"
        for line in b.lines
        if A_COMMAND.match(line)
    ]
    assert not loose + hidden


def test_a_place_of_the_host_is_one_of_the_folder(tmp_path: Path) -> None:
    """Tests run as root, too: nothing of the host may be written."""
    unit = "/opt/kbroker/bin/kbroker systemd /etc/kbroker/x > /etc/systemd/system/kbroker.service"
    assert placed(unit, tmp_path) == (
        f"{tmp_path}/opt-kbroker/bin/kbroker systemd {tmp_path}/etc-kbroker/x "
        f"> {tmp_path}/etc-systemd-system/kbroker.service"
    )
    assert placed("ln -s /opt/kbroker-0.1.0", tmp_path) == f"ln -s {tmp_path}/opt-kbroker-0.1.0"
    for other in ("s3://backups/kbroker", "/srv/opt/kbroker", "./backup/x", "/backups"):
        assert placed(other, tmp_path) == other


def test_missing_output_is_noticed() -> None:
    block = Block("page", 1, "console", ("$ seq 3", "1", "...", "3"))
    assert block.commands == "seq 3\n"
    assert missing(block.output, "1\n2\n3\n") == []
    assert missing(block.output, "3\n1\n") == ["3"]

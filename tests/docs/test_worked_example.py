"""The worked example of CONTRIBUTING.md: the debugger stops at the mistake that the page plants."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, blocks

OWN = "tests/docs/test_worked_example.py"
PAGE = ROOT / "CONTRIBUTING.md"
KERNEL = "kbroker/io/append/publish_kernel.py"
PACKAGES = ("kbroker", "loadtest", "tests", "tuning", "spark_validation")
PROMPT = "(Pdb) "


def copied(folder: Path) -> Path:
    """The project, to change it."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    return folder


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_debugger_shows_the_planted_mistake(tmp_path: Path) -> None:
    kernel, session = (b for b in blocks(PAGE) if (b.role, b.argument) == ("run by", OWN))
    first, second, stop, wrong = (f"    {line}\n" for line in kernel.lines)
    assert stop.strip() == "breakpoint()"
    file = copied(tmp_path) / KERNEL
    text = file.read_text()
    assert text.count(wrong + first + second) == 1, "the page has other lines than the kernel"
    file.write_text(text.replace(wrong + first + second, first + second + stop + wrong))
    asked = [line.removeprefix(PROMPT) for line in session.lines if line.startswith(PROMPT)]
    done = subprocess.run(
        ["bash", "-c", session.commands],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        input="\n".join([*asked, "continue", ""]),
        capture_output=True,
        text=True,
        timeout=240,
    )
    shown = done.stdout.replace(PROMPT, "")
    for line in (line for line in session.output if not line.startswith(PROMPT)):
        numbers = re.sub(r"(?<=int64\\\()\d+", r"(\\d+)", re.escape(line))
        found = re.search(f"^{numbers}$", shown, re.MULTILINE)
        assert found, done.stdout[-3000:] + done.stderr[-2000:]
        assert len(set(found.groups())) <= 1, "the old end is already overwritten"
    assert "1 failed" in shown

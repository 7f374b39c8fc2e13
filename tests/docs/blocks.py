"""The code blocks of a page, with what the page's comments say of them.

A comment in the line before a block: `<!-- not run: REASON -->` leaves it out,
`<!-- run by: TEST -->` leaves it to a test of its own,
`<!-- stays: TEXT -->` runs it beside the others once it has printed TEXT, `<!-- starts: TEXT -->`
stops it then, `<!-- file: NAME -->` writes it to a file. `<!-- broker -->` anywhere in a page has a
broker running before its first block, with a topic `orders` and a group `billing`;
`<!-- stopped broker -->` has its data in /var/lib/kbroker. With `<!-- wheel -->` dist/ has a
wheel with compiled kernels, and the packages that it needs can be imported. With `<!-- store -->`
an S3-compatible store with a bucket `backups` listens on 127.0.0.1:9000. With `<!-- java -->` there
are the programs of a Java runtime. With `<!-- cluster -->` another broker answers at kafka1:9092,
kafka2:9092 and kafka3:9092. With `<!-- systemd -->` there are `systemctl` and `journalctl`; with
`<!-- service -->`, which needs the wheel, the broker of the page is their service.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from docs.generated import GENERATED

ROOT = Path(__file__).parents[2]
RUN = ("sh", "console", "python")
WITH_BROKER = "<!-- broker -->"
WITH_STOPPED_BROKER = "<!-- stopped broker -->"
WITH_WHEEL = "<!-- wheel -->"
WITH_STORE = "<!-- store -->"
WITH_JAVA = "<!-- java -->"
WITH_CLUSTER = "<!-- cluster -->"
WITH_SYSTEMD = "<!-- systemd -->"
WITH_SERVICE = "<!-- service -->"

_FENCE = re.compile(r"(?P<indent> *)```(?P<language>\S*)$")
_COMMENT = re.compile(r" *<!-- (not run|run by|stays|starts|file): (.*) -->$")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block: its language, its lines, and what the comment before it says."""

    page: str
    line: int
    language: str
    lines: tuple[str, ...]
    role: str = ""
    argument: str = ""

    @property
    def runs(self) -> bool:
        return self.language in RUN and self.role not in ("not run", "run by", "file")

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    @property
    def commands(self) -> str:
        """What a shell is given; of a console the lines after prompts."""
        if self.language != "console":
            return self.text
        return "\n".join(line[2:] for line in self.lines if line.startswith(("$ ", "> "))) + "\n"

    @property
    def output(self) -> list[str]:
        """What a console shows besides the commands; `...` stands for any lines."""
        return [line for line in self.lines if not line.startswith(("$ ", "> "))]


def pages() -> list[Path]:
    """Every page of the project that may hold commands."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]
    return [*found, *sorted((ROOT / "docs").glob("**/*.md"))]


def by_hand(page: Path) -> bool:
    return str(page.relative_to(ROOT)) not in GENERATED


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in their order."""
    found: list[Block] = []
    lines = page.read_text().splitlines()
    at = 0
    while at < len(lines):
        if not (fence := _FENCE.match(lines[at])):
            at += 1
            continue
        comment = _COMMENT.match(lines[at - 1]) if at else None
        end = next(i for i in range(at + 1, len(lines)) if lines[i].strip() == "```")
        width = len(fence["indent"])
        found.append(
            Block(
                str(page.relative_to(ROOT)),
                at + 1,
                fence["language"],
                tuple(line[width:] for line in lines[at + 1 : end]),
                *(comment.groups() if comment else ()),
            )
        )
        at = end + 1
    return found

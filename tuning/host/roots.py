"""Paths of procfs and sysfs. Tests use folders of their own."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Roots:
    """proc and sys: the two mount points. etc: the folder of the host's settings."""

    proc: Path = Path("/proc")
    sys: Path = Path("/sys")
    etc: Path = Path("/etc")

    def sysctl(self, name: str) -> str | None:
        """Value of a sysctl by its dotted name, numbers separated by one blank; None where it
        cannot be read."""
        return text(self.proc / "sys" / name.replace(".", "/"))


def text(path: Path) -> str | None:
    """A small file, white space tidied; None when it is missing or may not be read."""
    try:
        return " ".join(path.read_text().split())
    except (OSError, UnicodeDecodeError):
        return None


def number(path: Path) -> int | None:
    """A file of one number; None when it is anything else."""
    return as_number(text(path))


def as_number(value: str | None) -> int | None:
    """A number in text, None for anything else."""
    try:
        return int(value) if value is not None else None
    except ValueError:
        return None


def chosen(value: str | None) -> str | None:
    """The one in brackets of `always [madvise] never`; the text itself when there are none."""
    if value is None or "[" not in value:
        return value
    return value.partition("[")[2].partition("]")[0]

"""Parses arguments of `kbroker serve` without the option parser, which would cost memory in each
process of the broker."""

from collections.abc import Sequence
from pathlib import Path


def parse(words: Sequence[str]) -> tuple[Path | None, list[str], bool] | None:
    """(server.properties, overrides, --environment) of a plain command line; None for anything that
    the option parser must judge: --help, unknown options, a second file, a missing value."""
    file: Path | None = None
    environment = False
    overrides: list[str] = []
    rest = iter(words)
    for word in rest:
        if word.startswith("--override="):
            overrides.append(word.removeprefix("--override="))
        elif word == "--override":
            value = next(rest, None)
            if value is None:
                return None
            overrides.append(value)
        elif word == "--environment":
            environment = True
        elif word.startswith("-") or file is not None:
            return None
        else:
            file = Path(word)
    return file, overrides, environment

"""Arguments of `kbroker serve` without the option parser, which would cost each process of the
broker its memory."""

from collections.abc import Sequence
from pathlib import Path


def parse(words: Sequence[str]) -> tuple[Path | None, list[str]] | None:
    """(server.properties, overrides) of a plain command line; None for anything that the option
    parser must judge: --help, unknown options, a second file, a missing value."""
    file: Path | None = None
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
        elif word.startswith("-") or file is not None:
            return None
        else:
            file = Path(word)
    return file, overrides

"""Reader of Java .properties files, and the `--override key=value` of the command line.

Rules of java.util.Properties.load: `#` and `!` comments, a backslash at the end of a line continues
it, `=`,
`:` or white space ends the key, and \\t \\n \\r \\f \\uXXXX are escapes. The last of equal keys wins.
"""

import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from kbroker.config.setting import ConfigError

_BLANK = " \t\f"
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BOM = "\ufeff"
"""Some editors begin a file with it; it is no part of the first key."""
_NEWLINE = re.compile(r"\r\n|\r|\n")

log = logging.getLogger(__name__)


def read(path: Path) -> dict[str, str]:
    """The pairs of one file; a key with several values is logged. Raises ConfigError when it cannot
    be read or decoded."""
    text = read_text(path)
    try:
        pairs = list(_pairs(text))
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    for key, values in Counter(key for key, _ in set(pairs)).items():
        if values > 1:
            log.warning("%s: %s has %d different values; the last one is used", path, key, values)
    return dict(pairs)


def read_text(path: Path) -> str:
    """The text of one file, with its line ends. Raises ConfigError when it cannot be read or
    decoded."""
    try:
        text = path.read_bytes().decode("utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"cannot read {path}: not UTF-8 at byte {error.start}") from error
    return text.removeprefix(_BOM)


def parse(text: str) -> dict[str, str]:
    """The pairs of a properties text, in order of first appearance. Raises ConfigError, which shows
    no value."""
    return dict(_pairs(text))


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for line in _logical_lines(text):
        end = _key_end(line)
        rest = line[end:].lstrip(_BLANK)
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip(_BLANK)
        key = _unescape(line[:end])
        try:
            value = _unescape(rest)
        except ConfigError as error:
            raise ConfigError(f"{key}: {error}") from None
        yield key, value


def parse_overrides(overrides: Iterable[str]) -> dict[str, str]:
    """`key=value` arguments. Raises ConfigError for one without a key or without `=`."""
    pairs: dict[str, str] = {}
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals or not key.strip():
            raise ConfigError("--override: expected key=value")  # and the text may be a password
        if not is_utf8(override):
            raise ConfigError(f"--override {ascii(key.strip())[1:-1]}: not UTF-8")
        pairs[key.strip()] = value
    return pairs


def is_utf8(text: str) -> bool:
    """Whether a text of the command line or the environment is UTF-8: other bytes are half
    surrogate pairs in it, which no file and no store takes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments and blank ones, continuations joined."""
    parts: list[str] = []
    for natural in _NEWLINE.split(text):
        line = natural.lstrip(_BLANK)
        if not any(parts) and (not line or line[0] in "#!"):
            parts = []  # a lone backslash continues nothing: the next line starts a new pair
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        parts.append(line[:-1] if backslashes % 2 else line)
        if not backslashes % 2 and any(parts):
            yield "".join(parts)
            parts = []
    if parts:
        yield "".join(parts)


def _key_end(line: str) -> int:
    """Index of the first separator that is not escaped."""
    escaped = False
    for index, char in enumerate(line):
        if not escaped and (char in "=:" or char in _BLANK):
            return index
        escaped = char == "\\" and not escaped
    return len(line)


def _unescape(text: str) -> str:
    """Replace the escapes. Raises ConfigError for a \\u without four hexadecimal digits."""
    if "\\" not in text:
        return text
    out: list[str] = []
    index = 0
    while index < len(text):
        char = text[index]
        index += 1
        if char != "\\":
            out.append(char)
            continue
        if index == len(text):
            break
        code = text[index]
        index += 1
        if code == "u":
            digits = text[index : index + 4]
            if not re.fullmatch(r"[0-9a-fA-F]{4}", digits):
                raise ConfigError("Malformed \\uxxxx encoding")  # and the text may be a password
            out.append(chr(int(digits, 16)))
            index += 4
        else:
            out.append(_ESCAPED.get(code, code))
    # Two \\u escapes may be the halves of one character outside the basic plane.
    return "".join(out).encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")

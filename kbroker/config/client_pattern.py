"""Regular expressions that clients send: RE2's language, matched in time linear in the length of
the text.

Kafka matches with RE2/J, which has neither back references nor look-around. RE2 itself does the
work here. Its time is also in proportion to the size of the expression, and to the square of that
for some, so expressions have bounds: one call of RE2 holds the coordinator, and takes some tens of
milliseconds at most.
"""

import re
from functools import lru_cache
from typing import Any, Final

import re2

PLAIN_BYTES = 1 << 20
"""Memory of one compiled expression and its automaton, for alternatives of plain texts, and of
their prefixes."""
MAX_BYTES = 1 << 18
"""Maximum memory of any other compiled expression and its automaton."""
MAX_PLAIN_LENGTH = 32_767
MAX_PLAIN_DOTS = 4096
MAX_PREFIXES = 1500
MAX_LENGTH = 8192
MAX_COST_US = 20_000
CLASS_US, OPTIONAL_US, REPETITION_US = 200, 10, 1
"""Time that RE2 needs for a class of Unicode, an optional part, and each repetition of a counted
one, before it counts memory."""
SHORT_TEXT = 255
MAX_STEPS = 1 << 22
"""Product of the lengths of a longer text and of a compiled expression."""
LONG_PATTERN = 1024
REMEMBERED, LONG_REMEMBERED = 256, 16
"""Expressions that are kept; those of more than LONG_PATTERN characters take up to a mebibyte
each."""

RE2J_WORDS = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "unexpected )": "regexp/syntax: internal error",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "trailing \\": "trailing backslash at end of expression",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}
"""Error texts of RE2, and those of Kafka's RE2/J."""

_NAMES: Final = r"(?:\.[*+](?=[|)$]|\Z)|[A-Za-z0-9_.|-]|\\\.)*+"
_PLAIN: Final = re.compile(rf"\^?(?:{_NAMES}|\((?:\?:)?{_NAMES}\))\$?")
_REPETITION: Final = re.compile(r"\{([0-9]{1,4})(?:,([0-9]{0,4}))?\}")


def _options(max_bytes: int) -> Any:
    made = re2.Options()
    made.log_errors = False
    made.max_mem = max_bytes
    made.never_capture = True  # each group would be copied for each state and character
    return made


_OPTIONS = _options(MAX_BYTES)
_PLAIN_OPTIONS = _options(PLAIN_BYTES)


class InvalidPattern(ValueError):
    """The expression is not RE2's."""


class ClientPattern:
    """A compiled expression. Immutable."""

    def __init__(self, text: str) -> None:
        """Raises InvalidPattern."""
        plain = _is_plain(text)
        if not plain and (len(text) > MAX_LENGTH or _cost_us(text) > MAX_COST_US):
            raise InvalidPattern("expression too large")
        if r"\C" in text.replace(r"\\", ""):
            raise InvalidPattern("invalid escape sequence")  # \C, one byte of a character: not in RE2/J
        try:
            self._compiled = re2.compile(text, _PLAIN_OPTIONS if plain else _OPTIONS)
        except re2.error as error:
            raise InvalidPattern(_as_re2j(error.args[0])) from None
        except UnicodeEncodeError as error:
            raise InvalidPattern("not UTF-8") from error
        self._size = 0 if plain and not _prefixes(text) else int(self._compiled.programsize)

    def matches(self, text: str) -> bool:
        """Whether the whole text matches; False for a long text and an expression that would take
        too long."""
        if len(text) > SHORT_TEXT and len(text) * self._size > MAX_STEPS:
            return False
        return self._compiled.fullmatch(text) is not None


def compile_pattern(text: str) -> ClientPattern:
    """Compiled once, if few others are compiled meanwhile. Raises InvalidPattern."""
    return _compiled(text) if len(text) <= LONG_PATTERN else _compiled_long(text)


_compiled = lru_cache(REMEMBERED)(ClientPattern)
_compiled_long = lru_cache(LONG_REMEMBERED)(ClientPattern)


def _is_plain(text: str) -> bool:
    """Whether an expression consists of names and of dots, as alternatives, which may end with .*
    or .+, be in one group and between anchors."""
    if len(text) > MAX_PLAIN_LENGTH or text.count(".") > MAX_PLAIN_DOTS or _prefixes(text) > MAX_PREFIXES:
        return False
    return _PLAIN.fullmatch(text) is not None


def _prefixes(text: str) -> int:
    return text.count("*") + text.count("+")


def _cost_us(text: str) -> int:
    classes = text.count(r"\p") + text.count(r"\P")
    repetitions = sum(int(high or low) for low, high in _REPETITION.findall(text))
    return CLASS_US * classes + OPTIONAL_US * text.count("?") + REPETITION_US * repetitions


def _as_re2j(why: str | bytes) -> str:
    """The reason in RE2/J's words, without the piece of the expression that RE2 adds."""
    text = why.decode(errors="replace") if isinstance(why, bytes) else why
    problem = text.partition(": ")[0]
    if text.endswith((": (?<=", ": (?<!")):
        return "invalid named capture"
    return RE2J_WORDS.get(problem, problem)

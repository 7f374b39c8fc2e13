"""Regular expressions that clients send: RE2's language, matched in time linear in the length of
the text.

Kafka matches with RE2/J, which has neither back references nor look-around, so that no expression
can keep the coordinator busy. RE2 itself does the work here.
"""

from functools import lru_cache

import re2

MAX_BYTES = 1 << 20
"""Memory of one compiled expression and its automaton."""
MAX_LENGTH = 32_767
REMEMBERED = 256

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

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = MAX_BYTES


class InvalidPattern(ValueError):
    """The expression is not RE2's."""


class ClientPattern:
    """A compiled expression. Immutable."""

    def __init__(self, text: str) -> None:
        """Raises InvalidPattern."""
        if len(text) > MAX_LENGTH:
            raise InvalidPattern("expression too large")
        if r"\C" in text.replace(r"\\", ""):
            raise InvalidPattern("invalid escape sequence")  # \C, one byte of a character: not in RE2/J
        try:
            self._compiled = re2.compile(text, _OPTIONS)
        except re2.error as error:
            raise InvalidPattern(_as_re2j(error.args[0])) from None
        except UnicodeEncodeError as error:
            raise InvalidPattern("not UTF-8") from error

    def matches(self, text: str) -> bool:
        """Whether the whole text matches."""
        return self._compiled.fullmatch(text) is not None


@lru_cache(maxsize=REMEMBERED)
def compile_pattern(text: str) -> ClientPattern:
    """Compiled once. Raises InvalidPattern."""
    return ClientPattern(text)


def _as_re2j(why: str | bytes) -> str:
    """The reason in RE2/J's words, without the piece of the expression that RE2 adds."""
    text = why.decode(errors="replace") if isinstance(why, bytes) else why
    problem = text.partition(": ")[0]
    if text.endswith((": (?<=", ": (?<!")):
        return "invalid named capture"
    return RE2J_WORDS.get(problem, problem)

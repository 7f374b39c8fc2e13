"""A small change of one place of a module's source."""

from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Mutant:
    """module: its path. ordinal: counts the mutants of a function whose text is the same.

    The key names no line, so it stays while other parts of the module change.
    """

    module: str
    function: str
    operator: str
    before: str
    after: str
    ordinal: int
    line: int
    start: int
    end: int

    @cached_property
    def key(self) -> tuple[str, ...]:
        before, after = one_line(self.before), one_line(self.after)
        return (self.module, self.function, self.operator, before, after, str(self.ordinal))

    def applied(self, source: str) -> str:
        """The module's source with the change. start and end count bytes."""
        text = source.encode()
        return (text[: self.start] + self.after.encode() + text[self.end :]).decode()

    def __str__(self) -> str:
        change = f"{one_line(self.before)} -> {one_line(self.after)}"
        return f"{self.module}:{self.line} {self.function}: {change}"


def one_line(text: str) -> str:
    """The text with single blanks between its words."""
    return " ".join(text.split())

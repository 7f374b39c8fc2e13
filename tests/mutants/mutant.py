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
        return (self.module, self.function, self.operator, self.before, self.after, str(self.ordinal))

    def applied(self, source: str) -> str:
        """The module's source with the change. start and end count bytes."""
        text = source.encode()
        return (text[: self.start] + self.after.encode() + text[self.end :]).decode()

    def __str__(self) -> str:
        return f"{self.module}:{self.line} {self.function}: {self.before} -> {self.after}"

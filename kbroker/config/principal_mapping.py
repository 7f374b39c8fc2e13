"""ssl.principal.mapping.rules: maps the subject of a client certificate to a user name (KIP-371).

``RULE:pattern/replacement/`` (then L or U for the case) applies when its pattern matches the whole subject;
DEFAULT keeps the subject as it is. The first rule that applies is used. Patterns are written by the
operator, in Java's syntax: groups are ``$1`` in a replacement.
"""

import re
from typing import Final

from msgspec import Struct

from kbroker.config.setting import ConfigError

_RULE: Final = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*")
_GROUP: Final = re.compile(r"\\(.)|\$(\d)")


class Rule(Struct, frozen=True):
    """One rule of ssl.principal.mapping.rules. pattern: None keeps the subject. case: L, U or
    empty."""

    pattern: re.Pattern[str] | None = None
    replacement: str = ""
    case: str = ""

    def apply(self, subject: str) -> str | None:
        """The name; None when the rule does not apply."""
        if self.pattern is None:
            return subject
        match = self.pattern.fullmatch(subject)
        if match is None:
            return None
        name = _GROUP.sub(lambda part: part[1] or match[int(part[2])] or "", self.replacement)
        return name.lower() if self.case == "L" else name.upper() if self.case == "U" else name


def rules_of(text: str) -> tuple[Rule, ...]:
    """The rules of a setting. Raises ConfigError."""
    rules = []
    at = 0
    while at < len(text):
        match = _RULE.match(text, at)
        if match is None or (match.end() < len(text) and text[match.end()] != ","):
            raise ConfigError(f"ssl.principal.mapping.rules: invalid rule {text[at:]}")
        default, pattern, replacement, case = match.groups()
        try:
            rule = Rule() if default else Rule(re.compile(pattern.replace(r"\/", "/")), replacement, case)
        except re.error as error:
            raise ConfigError(f"ssl.principal.mapping.rules: {pattern}: {error}") from error
        if rule.pattern is not None:
            named = [int(part[2]) for part in _GROUP.finditer(replacement) if part[2]]
            if any(number > rule.pattern.groups for number in named):
                raise ConfigError(f"ssl.principal.mapping.rules: {replacement}: no such group")
        rules.append(rule)
        at = match.end() + 1
    return tuple(rules) or (Rule(),)


def name_of(rules: tuple[Rule, ...], subject: str) -> str | None:
    """User name of a subject; None when no rule applies."""
    return next((name for rule in rules if (name := rule.apply(subject)) is not None), None)

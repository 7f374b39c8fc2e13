"""Options of kbroker that have no effect beside another option, or without one."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

from kbroker.cli.help_text import argument_name
from loadtest.single_values import UsefulOptions, name_of

_FIELDS = ("--print-key", "--print-headers", "--print-timestamp", "--print-offset")
_SEPARATORS = ("--separator", "--delimiter")

IDLE_BESIDE: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "consume": {
        "--json": _SEPARATORS,
        "--format": (*_SEPARATORS, *_FIELDS),
        "--exact-count": (*_SEPARATORS, *_FIELDS, "--registry", "--decode-keys"),
    },
    "groups remove-members": {"--all": ("--member", "--instance")},
    "groups reset-offsets": {"--export": ("--json",)},
    "topics copy": {"--validate-only": ("--records",)},
    "top": {"--once": ("--interval",)},
    "users add": {"--offline": ("--bootstrap", "--command-config", "--timeout")},
}
"""Command -> option -> the options that have no effect beside it."""
IDLE_WITHOUT: Mapping[str, Mapping[str, str]] = {"consume": {"--group-protocol": "--group"}}
"""Command -> option -> the option without which it has no effect."""


class OwnCommand(UsefulOptions):
    """A command of kbroker. It refuses nan, which the parser takes for a number within any bounds,
    and shows arguments as Kafka's tools do: TOPIC, where Typer has {topic}."""

    idle_beside: ClassVar[Mapping[str, Mapping[str, tuple[str, ...]]]] = IDLE_BESIDE
    idle_without: ClassVar[Mapping[str, Mapping[str, str]]] = IDLE_WITHOUT

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        for argument in self._arguments():
            argument.metavar = argument.metavar or argument.name.upper()

    def _arguments(self) -> list[Any]:
        return [each for each in self.params if each.param_type_name == "argument"]

    def collect_usage_pieces(self, _context: Any) -> list[str]:
        return [self.options_metavar or "", *map(argument_name, self._arguments())]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        left = super().parse_args(ctx, args)
        for option in self.params:
            value = ctx.params.get(option.name)
            if isinstance(value, float) and math.isnan(value):
                ctx.fail(f"{name_of(option)} is not a number")
        return left

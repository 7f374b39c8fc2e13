"""Options that have no effect beside another option, or without one: they are refused, because a
user who gives one expects something of it."""

from collections.abc import Mapping
from typing import Any

from loadtest.single_values import SingleValues, name_of

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
    "top": {"--once": ("--interval",)},
    "users add": {"--offline": ("--bootstrap", "--command-config", "--timeout")},
}
"""By command: an option, and those that have no effect beside it."""
IDLE_WITHOUT: Mapping[str, Mapping[str, str]] = {"consume": {"--group-protocol": "--group"}}
"""By command: an option, and the one without which it has no effect."""


class OwnCommand(SingleValues):
    """A command that refuses options without effect."""

    def check(self, ctx: Any, given: list[Any]) -> None:
        super().check(ctx, given)
        names = {name_of(each) for each in given if each.param_type_name == "option"}
        command = ctx.command_path.partition(" ")[2]
        for option, others in IDLE_BESIDE.get(command, {}).items():
            idle = [other for other in others if other in names]
            if option in names and idle:
                it = "it would have no effect" if len(idle) == 1 else "they would have no effect"
                ctx.fail(f"{option} does not allow {' and '.join(idle)}: {it}")
        for option, needed in IDLE_WITHOUT.get(command, {}).items():
            if option in names and needed not in names:
                ctx.fail(f"{option} needs {needed}: it would have no effect")

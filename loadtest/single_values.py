"""Options with one value, which a command line names once: the parser would use the last of two
values, and a script that adds its own would not notice. And options that have no effect beside
another option, or without one: they are refused, because a user who gives one expects something of
it. For the load test, the tuner and kbroker."""

from collections.abc import Mapping
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand


class SingleValues(TyperCommand):
    """A command that refuses a second value of an option that takes one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:
            self.check(ctx, self._given(ctx, args))
        return super().parse_args(ctx, args)

    def check(self, ctx: Any, given: list[Any]) -> None:
        """Raises the parser's error for a wrong command line. given: options and arguments, in its
        order."""
        for option in given:
            if _takes_one(option) and given.count(option) > 1:
                ctx.fail(_refusal(option, given.count(option)))

    def _given(self, ctx: Any, args: list[str]) -> list[Any]:
        try:
            return self.make_parser(ctx).parse_args(list(args))[2]
        except Exception as error:
            if getattr(error, "ctx", ctx) is None:  # of an option without its value: names no command
                error.ctx = ctx  # type: ignore[attr-defined]
            raise


class UsefulOptions(SingleValues):
    """A command that refuses options without effect. A program's own class has its tables, by the
    command."""

    idle_beside: ClassVar[Mapping[str, Mapping[str, tuple[str, ...]]]] = {}
    """An option, and those that have no effect beside it."""
    idle_without: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    """An option, and the one without which it has no effect."""

    def check(self, ctx: Any, given: list[Any]) -> None:
        super().check(ctx, given)
        names = {name_of(each) for each in given if each.param_type_name == "option"}
        command = ctx.command_path.partition(" ")[2]
        for option, others in self.idle_beside.get(command, {}).items():
            idle = [other for other in others if other in names]
            if option in names and idle:
                it = "it would have no effect" if len(idle) == 1 else "they would have no effect"
                ctx.fail(f"{option} does not allow {' and '.join(idle)}: {it}")
        for option, needed in self.idle_without.get(command, {}).items():
            if option in names and needed not in names:
                ctx.fail(f"{option} needs {needed}: it would have no effect")


def name_of(option: Any) -> str:
    """The long name of an option."""
    return str(max(option.opts, key=len))


def _takes_one(option: Any) -> bool:
    """A flag may be repeated, unless its opposite is a flag, too."""
    if option.param_type_name != "option" or option.multiple or option.count:
        return False
    return not option.is_flag or bool(option.secondary_opts)


def _refusal(option: Any, times: int) -> str:
    separated = "[,...]" in (option.metavar or "")
    more = ", with commas between several" if separated else ""
    return f"{name_of(option)} is given {'twice' if times == 2 else f'{times} times'}: give it once{more}"


def refuse_second_values(app: typer.Typer, by: type[SingleValues] = SingleValues) -> None:
    """Use this parser for every command of the program that has none of its own."""
    for command in app.registered_commands:
        if command.cls in (None, TyperCommand):
            command.cls = by
    for group in app.registered_groups:
        if group.typer_instance is not None:
            refuse_second_values(group.typer_instance, by)

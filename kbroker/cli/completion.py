"""Words for the shell: names of topics and groups from the broker, with a short timeout, and names
of settings from their tables."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from kbroker.cli import client_properties
from kbroker.cli.connection import DEFAULT_BOOTSTRAP, Connection
from kbroker.cli.idle_options import OwnCommand

PATIENCE_S = 2.0
_NO_BREAK = "99999"
_ZSH_END = """
compdef %(complete_func)s %(prog_name)s
"""
_ZSH_BOTH_ENDS = """
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
  %(complete_func)s "$@"
else
  compdef %(complete_func)s %(prog_name)s
fi
"""
Words = list[tuple[str, str]]
"""Words with their explanations, which zsh and fish show."""


def repair_shells() -> None:
    """Correct typer's completion for two shells, before it prints words or scripts. fish offers
    each line of an explanation as a word, so lines are not wrapped. zsh loads the script with the
    first completion of a session, so the script must also offer words."""
    from typer import _completion_shared as shared

    os.environ["TERMINAL_WIDTH"] = _NO_BREAK  # read when typer's module of texts is imported
    scripts = shared._completion_scripts
    scripts["zsh"] = scripts["zsh"].replace(_ZSH_END, _ZSH_BOTH_ENDS)


def complete_topic(context: typer.Context, incomplete: str) -> list[str]:
    """Names of topics with this prefix."""
    return _beginning(context, incomplete, _topics)


def complete_group(context: typer.Context, incomplete: str) -> list[str]:
    """Names of groups with this prefix."""
    return _beginning(context, incomplete, _groups)


def complete_entity(context: typer.Context, incomplete: str) -> list[str]:
    """Names of entities of `configs` with this prefix."""
    kind = str(context.params.get("entity") or "")
    names = {"topic": _topics, "group": _groups}.get(kind)
    return [] if names is None else _beginning(context, incomplete, names)


def complete_topic_setting(incomplete: str) -> Words:
    """Names of topic settings with this prefix."""
    return _settings("topic", incomplete)


def complete_topic_value(incomplete: str) -> Words:
    """Topic settings as NAME=, for pairs of NAME=VALUE."""
    return _with_equals(_settings("topic", incomplete))


class CompletedCommand(OwnCommand):
    """A command whose completions of an option depend on its arguments.

    typer parses the words before the one that is completed. It stops at an option without a value,
    before it has assigned the arguments, so an empty value is added."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        valued = {name for each in self.params for name in each.opts if not getattr(each, "is_flag", True)}
        waits = ctx.resilient_parsing and args and args[-1] in valued
        return super().parse_args(ctx, [*args, ""] if waits else args)


def complete_setting(context: typer.Context, incomplete: str) -> Words:
    """Names of the settings of the kind of entity that `configs` is about."""
    return _settings(str(context.params.get("entity") or ""), incomplete)


def complete_setting_value(context: typer.Context, incomplete: str) -> Words:
    """Settings that can be changed, as NAME=."""
    kind = str(context.params.get("entity") or "")
    return _with_equals(_settings(kind, incomplete, only_dynamic=True))


def complete_quota(incomplete: str) -> Words:
    """Names of quotas with this prefix."""
    from kbroker.config.client_quotas import IP_KEYS, USER_KEYS

    return [(key, "") for key in sorted({*USER_KEYS, *IP_KEYS}) if key.startswith(incomplete)]


def complete_quota_value(incomplete: str) -> Words:
    """Quotas as NAME=, for pairs of NAME=VALUE."""
    return _with_equals(complete_quota(incomplete))


def _with_equals(words: Words) -> Words:
    return [(f"{name}=", text) for name, text in words]


def _settings(kind: str, incomplete: str, *, only_dynamic: bool = False) -> Words:
    """Settings of a kind of entity. only_dynamic: of brokers, those that need no restart."""
    from kbroker.config import broker, group, topic
    from kbroker.config.setting import Dynamic

    tables = {"topic": topic.TOPIC, "group": group.GROUP, "broker": broker.BROKER}
    return [
        (name, setting.doc)
        for name, setting in sorted(tables.get(kind, {}).items())
        if name.startswith(incomplete)
        and not setting.internal
        and not (only_dynamic and kind == "broker" and setting.dynamic is Dynamic.NO)
    ]


def _beginning(
    context: typer.Context, incomplete: str, names: Callable[[Connection], list[str]]
) -> list[str]:
    """Names with a prefix; none if the broker does not answer, because the shell cannot show an
    error."""
    try:
        given = context.params
        config = given.get("command_config")
        settings = client_properties.read(Path(config)) if config else {}
        address = given.get("bootstrap") or settings.get("bootstrap.servers") or DEFAULT_BOOTSTRAP
        return sorted(
            name for name in names(Connection(address, settings, PATIENCE_S)) if name.startswith(incomplete)
        )
    except Exception:
        return []


def _topics(broker: Connection) -> list[str]:
    return list(broker.admin().list_topics(timeout=PATIENCE_S).topics)


def _groups(broker: Connection) -> list[str]:
    with broker.kafka_python_admin() as admin:
        return [str(group["group_id"]) for group in admin.list_groups()]

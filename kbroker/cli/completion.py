"""Names of topics and groups for the shell, from the broker, with a short timeout."""

from collections.abc import Callable
from pathlib import Path

import typer

from kbroker.cli import client_properties
from kbroker.cli.connection import DEFAULT_BOOTSTRAP, Connection

PATIENCE_S = 2.0


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

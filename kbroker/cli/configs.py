"""`kbroker configs`: the settings of topics, brokers and groups, and the levels of loggers."""

from enum import StrEnum
from typing import Annotated

import typer

from kbroker.cli.client_properties import parse_pairs
from kbroker.cli.completion import CompletedCommand, complete_entity, complete_setting, complete_setting_value
from kbroker.cli.config_changes import OF_A_BROKER, change_configs, read_configs
from kbroker.cli.connection import Connection
from kbroker.cli.failures import CommandFailed, UsageFailed
from kbroker.cli.options import AsJson, DryRun, connected, examples
from kbroker.cli.output import print_json, print_table, say
from kbroker.cli.setting_names import at_next_start, known_names
from kbroker.config.close_names import suggestion

app = typer.Typer(
    name="configs", no_args_is_help=True, help="Show and change settings of topics, brokers, groups."
)


class Entity(StrEnum):
    """Kinds of entities with settings."""

    TOPIC = "topic"
    BROKER = "broker"
    GROUP = "group"
    LOGGER = "broker-logger"


EntityType = Annotated[Entity, typer.Argument(help="Kind of the entity.", show_default=False)]
EntityName = Annotated[
    str | None,
    typer.Argument(
        metavar="NAME", help="Topic, broker id, or group.", show_default=False, autocompletion=complete_entity
    ),
]
AllBrokers = Annotated[bool, typer.Option("--default", help="Instead of NAME: the defaults of all brokers.")]
Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Set a value; repeatable.", autocompletion=complete_setting_value
    ),
]
Deletes = Annotated[
    list[str] | None,
    typer.Option(
        "--delete", metavar="KEY", help="Restore the default; repeatable.", autocompletion=complete_setting
    ),
]
Appends = Annotated[
    list[str] | None,
    typer.Option(
        "--append",
        metavar="KEY=VALUE",
        help="Add values to a list; repeatable.",
        autocompletion=complete_setting_value,
    ),
]
Subtracts = Annotated[
    list[str] | None,
    typer.Option(
        "--subtract",
        metavar="KEY=VALUE",
        help="Remove values from a list; repeatable.",
        autocompletion=complete_setting_value,
    ),
]


def _name(entity: Entity, name: str | None, default: bool) -> str:
    """The entity's name in the protocol: empty for all brokers. Raises UsageFailed."""
    if default and (name is not None or entity is not Entity.BROKER):
        raise UsageFailed("--default stands for all brokers: `broker --default`, without a name")
    if default:
        return ""
    if not name:
        raise UsageFailed(
            f"{entity.value}: give a name" + (", or --default" if entity is Entity.BROKER else "")
        )
    if entity.value in OF_A_BROKER and not (name.isascii() and name.isdigit()):
        raise UsageFailed(f"{entity.value} {name!r}: expected a broker id, a number")
    return name


@app.command(
    cls=CompletedCommand,
    epilog=examples(
        "kbroker configs describe topic orders",
        "kbroker configs describe broker 1 --all",
        "kbroker configs describe topic orders --key retention.ms --json | jq -r '.[].value'",
    ),
)
@connected
def describe(
    broker: Connection,
    entity: EntityType,
    name: EntityName = None,
    default: AllBrokers = False,
    everything: Annotated[bool, typer.Option("--all", help="Also show settings at their default.")] = False,
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key",
            "-k",
            metavar="KEY",
            help="Show only this setting; repeatable.",
            autocompletion=complete_setting,
        ),
    ] = None,
    synonyms: Annotated[
        bool, typer.Option("--synonyms", help="Also show the values that apply if this one is removed.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Show settings with their values and sources."""
    name = _name(entity, name, default)
    entries = read_configs(broker, entity.value, name)
    names = {entry["name"] for entry in entries}
    if unknown := sorted(set(key or []) - names):
        subject = f"{entity.value} {name}" if name else "all brokers together"
        close = "".join(suggestion(each, names) for each in unknown)
        raise CommandFailed(f"{subject}: no setting {', '.join(unknown)}{close}")
    if key:
        shown = [entry for entry in entries if entry["name"] in key]
    else:
        shown = [entry for entry in entries if everything or not entry["default"]]
    if json:
        print_json(shown)
        return
    headers = ["NAME", "VALUE", "SOURCE", "READ-ONLY"] + (["SYNONYMS"] if synonyms else [])
    rows = []
    for entry in shown:
        value = "(hidden)" if entry["sensitive"] else entry["value"]
        row = [entry["name"], value, entry["source"], entry["read_only"]]
        if synonyms:
            row.append("; ".join(f"{s['name']}={s['value']} ({s['source']})" for s in entry["synonyms"]))
        rows.append(row)
    print_table(headers, rows)
    if not rows:
        say("all settings have their default (--all shows them)")


@app.command(
    cls=CompletedCommand,
    epilog=examples(
        "kbroker configs alter topic orders --set retention.ms=86400000 --delete segment.bytes",
        "kbroker configs alter topic orders --append cleanup.policy=compact",
        "kbroker configs alter broker 1 --set log.retention.ms=3600000",
        "kbroker configs alter broker --default --set log.cleaner.threads=2",
        "kbroker configs alter group billing --set consumer.session.timeout.ms=60000",
        "# the log level of the control process, until the next start",
        "kbroker configs alter broker-logger 1 --set kbroker.control=DEBUG",
    ),
)
@connected
def alter(
    broker: Connection,
    entity: EntityType,
    name: EntityName = None,
    default: AllBrokers = False,
    sets: Sets = None,
    delete: Deletes = None,
    append: Appends = None,
    subtract: Subtracts = None,
    validate_only: DryRun = False,
) -> None:
    """Change settings; others stay unchanged. Either all changes of a command are made or none."""
    if not (sets or delete or append or subtract):
        raise UsageFailed("nothing to alter: give --set, --delete, --append or --subtract")
    name = _name(entity, name, default)
    new_values = parse_pairs("--set", sets or [])
    change_configs(
        broker,
        entity.value,
        name,
        sets=new_values,
        deletes=delete or [],
        appends=parse_pairs("--append", append or [], lists=True),
        subtracts=parse_pairs("--subtract", subtract or [], lists=True),
        validate_only=validate_only,
    )
    if entity is Entity.BROKER:  # the broker accepts any name, as Apache Kafka does for its plug-ins
        for key in sorted(set(new_values) - (names := known_names())):
            say(f"{key} is not a setting of kbroker{suggestion(key, names)}")
        for key in sorted(at_next_start((*new_values, *(delete or [])))):
            say(f"{key}: kbroker stores it, and uses it from its next start on")
    subject = f"{entity.value} {name}" if name else "all brokers"
    say(f"{subject}: {'would be altered' if validate_only else 'altered'}")

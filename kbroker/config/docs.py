"""The page docs/config.md, from the tables of settings."""

from collections.abc import Iterable, Iterator

from kbroker.config.broker import DYNAMIC_ONLY
from kbroker.config.broker_groups import GROUPS
from kbroker.config.broker_kbroker import KBROKER
from kbroker.config.broker_log import LOG
from kbroker.config.broker_network import NETWORK
from kbroker.config.broker_security import SECURITY
from kbroker.config.broker_topics import TOPICS
from kbroker.config.broker_transactions import TRANSACTIONS
from kbroker.config.client_metrics import CLIENT_METRICS
from kbroker.config.group import GROUP
from kbroker.config.group import SYNONYM as GROUP_SYNONYM
from kbroker.config.inert import INERT_GROUPS, INERT_TOPIC_GROUPS, INERT_TOPIC_REASON
from kbroker.config.removed import REMOVED
from kbroker.config.setting import DOUBLE_MAX, INT_MAX, LONG_MAX, Setting, render
from kbroker.config.topic import SYNONYM as TOPIC_SYNONYM
from kbroker.config.topic import TOPIC

_INTRO = """\
# Settings

Look up what a setting does, its default, its allowed values, and whether you can change it without a restart.
[server.properties](server-properties.md) shows the common ones together. Generated from the tables in
`kbroker/config/` by `make docs`; do not edit.

kbroker reads a Kafka `server.properties`: names, defaults and checks are those of Apache Kafka 4.3. Values
are looked
up in this order: set at run time for this broker, set at run time for all brokers, `--override key=value`,
the file,
the default. *Change* says how a broker setting may change while the broker runs: `read-only` needs a
restart,
`cluster-wide` may be set for all brokers or for one, `per-broker` for one only. Topic, group and client
metrics
settings may change at any time. A key may be set for one listener as `listener.name.NAME.KEY`, for one
SASL mechanism
of it as `listener.name.NAME.MECHANISM.KEY`, both in lower case.

An unknown key causes a warning. With an invalid value the broker does not start, and the error message
names the key, the value and what is allowed.
"""

_BROKER_SECTIONS = (
    ("Network", NETWORK),
    ("Logs", LOG),
    ("Topics", TOPICS),
    ("Groups", GROUPS),
    ("Transactions", TRANSACTIONS),
    ("Security", SECURITY),
    ("kbroker's own", KBROKER),
)
_NAMED = {INT_MAX: "2^31-1", LONG_MAX: "2^63-1", DOUBLE_MAX: "largest double"}


def page() -> str:
    """The whole text of docs/config.md."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield _INTRO
    yield "## Broker settings"
    for title, rows in _BROKER_SECTIONS:
        yield f"\n### {title}\n"
        yield from _table(rows)
    yield "\n### Only at run time\n"
    yield from _table(DYNAMIC_ONLY.values())
    yield "\n## Topic settings\n"
    yield "*Broker setting* is where the value comes from while the topic has none of its own.\n"
    working = (row for row in TOPIC.values() if row.name not in INERT_TOPIC_REASON)
    yield from _layered(working, TOPIC_SYNONYM)
    yield "\n## Group settings\n"
    yield from _layered(GROUP.values(), GROUP_SYNONYM)
    yield "\n## Client metrics settings\n"
    yield (
        "A subscription says which clients push which of their own metrics to the broker (KIP-714), and how often; "
        "/metrics shows them ([metrics of clients](observe.md#metrics-of-clients)). `kbroker client-metrics` sets "
        "them, as kafka-client-metrics.sh does.\n"
    )
    yield from _layered(CLIENT_METRICS.values(), {})
    yield "\n## Settings without effect\n"
    yield (
        "Accepted and checked, so that the properties of a Kafka cluster load. The broker logs a warning at the "
        "start if one is set.\n"
    )
    for group in (*INERT_GROUPS, *INERT_TOPIC_GROUPS):
        yield f"**{group.title}**: {group.reason}\n"
        yield ", ".join(f"`{row.name}`" for row in group.rows) + "\n"
    yield "## Removed from Kafka\n"
    yield "Ignored with a warning, as are `zookeeper.*` and `password.encoder.*`.\n"
    yield "| name | |\n|---|---|"
    for name, reason in REMOVED.items():
        yield f"| `{name}` | {reason} |"


def _table(rows: Iterable[Setting]) -> Iterator[str]:
    yield "| name | what it does | type | default | allowed | change | importance |\n|---|---|---|---|---|---|---|"
    for row in _public(rows):
        cells = (_name(row), row.doc, _type(row), _default(row), _allowed(row))
        yield _row(*cells, row.dynamic.value, row.importance.value)


def _layered(rows: Iterable[Setting], synonyms: dict[str, str]) -> Iterator[str]:
    yield "| name | what it does | type | default | allowed | broker setting |\n|---|---|---|---|---|---|"
    for row in _public(rows):
        broker = f"`{synonyms[row.name]}`" if row.name in synonyms else ""
        yield _row(_name(row), row.doc, _type(row), _default(row), _allowed(row), broker)


def _public(rows: Iterable[Setting]) -> Iterator[Setting]:
    return (row for row in rows if not row.internal)


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _name(row: Setting) -> str:
    return f"`{row.name}`"


def _type(row: Setting) -> str:
    return row.type.name.lower()


def _default(row: Setting) -> str:
    if row.default_text:
        return row.default_text
    value = row.default_value()
    if value is None:
        return "unset"
    if not isinstance(value, bool | tuple | str) and value in _NAMED:
        return _NAMED[value]
    text = render(value, row.type)
    return f"`{text}`" if text else "empty"


def _allowed(row: Setting) -> str:
    return "" if row.check is None else str(row.check)

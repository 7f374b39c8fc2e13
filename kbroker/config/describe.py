"""The answer to DescribeConfigs: value, source and synonyms of every setting of a resource.

Sources and the order of synonyms are those of Kafka's ConfigHelper: dynamic for this broker,
dynamic for all, file, default; each over all names of the setting. The API handler only copies
fields.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

from msgspec import Struct

from kbroker.config import client_metrics, group, topic
from kbroker.config.broker import BROKER, BrokerConfig, is_dynamic, is_sensitive, row_of, synonyms
from kbroker.config.inert import INERT_REASON, INERT_TOPIC_REASON
from kbroker.config.java_hash import map_order, string_hash
from kbroker.config.setting import Setting, Type, Value, render

Keys = Container[str] | None


class Source(IntEnum):
    """DescribeConfigsResponse.ConfigSource."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class Synonym(Struct, frozen=True):
    name: str
    value: str | None
    source: Source


class Entry(Struct, frozen=True):
    """One setting as DescribeConfigs shows it."""

    name: str
    value: str | None
    source: Source
    read_only: bool
    sensitive: bool
    synonyms: tuple[Synonym, ...]
    type: Type
    documentation: str | None


_NO_DEFAULT = frozenset({"node.id", "process.roles", "controller.listener.names"})
"""Kafka has no default for these: every server.properties names them, so they are shown as named
there."""

_OF_THE_AUTHORIZER = frozenset({"allow.everyone.if.no.acl.found", "super.users"})
"""Settings of Kafka's authorizer, not of its broker: shown when set."""


def documentation(row: Setting | None) -> str | None:
    """The text of a row; of one without effect the reason."""
    if row is None:
        return None
    reason = INERT_REASON.get(row.name) or INERT_TOPIC_REASON.get(row.name)
    return row.doc if reason is None else f"No effect in kbroker: {reason}"


def describe_broker(config: BrokerConfig, keys: Keys = None) -> list[Entry]:
    """Every setting of this broker: all rows but the internal ones, and every key that is set."""
    shown = (name for name, row in BROKER.items() if not row.internal and name not in _OF_THE_AUTHORIZER)
    names = dict.fromkeys(shown)
    names |= dict.fromkeys((*config.static, *config.cluster, *config.own))
    return [_broker_entry(config, name, broker_synonyms(config, name)) for name in _selected(names, keys)]


def describe_all_brokers(config: BrokerConfig, keys: Keys = None) -> list[Entry]:
    """Settings that were changed at run time for all brokers (resource name "")."""
    entries = []
    for name in _selected(config.cluster, keys):
        layer = (s for s in broker_synonyms(config, name) if s.source is Source.DYNAMIC_DEFAULT_BROKER)
        entries.append(_broker_entry(config, name, tuple(layer), config.cluster[name]))
    return entries


def describe_topic(overrides: Mapping[str, str], config: BrokerConfig, keys: Keys = None) -> list[Entry]:
    """Every setting of a topic with these overrides. Raises ConfigError when they cannot be
    read."""
    values = topic.effective(overrides, config)
    return list(
        _layered(_Layer(Source.DYNAMIC_TOPIC, topic.TOPIC, topic.SYNONYM), values, overrides, config, keys)
    )


def describe_group(overrides: Mapping[str, str], config: BrokerConfig, keys: Keys = None) -> list[Entry]:
    """Every setting of a group with these overrides. Raises ConfigError when they cannot be
    read."""
    values = group.effective(overrides, config)
    layer = _Layer(Source.GROUP, group.GROUP, group.SYNONYM, has_own=True)
    entries = _layered(layer, values, overrides, config, keys)
    return list(entries)


def describe_client_metrics(overrides: Mapping[str, str], keys: Keys = None) -> list[Entry]:
    """Every setting of a client metrics subscription. Raises ConfigError when the overrides cannot
    be read."""
    entries = []
    for name in _selected(client_metrics.CLIENT_METRICS, keys):
        row = client_metrics.CLIENT_METRICS[name]
        if name in overrides:
            value = render(row.parse(overrides[name]), row.type)
            own: tuple[Synonym, ...] = (Synonym(name, value, Source.CLIENT_METRICS),)
        else:
            value, own = render(row.default_value(), row.type), ()
        entries.append(Entry(name, value, _source(own), False, False, own, row.type, documentation(row)))
    return entries


def broker_synonyms(config: BrokerConfig, name: str) -> tuple[Synonym, ...]:
    """Sources of values for `name`, first the effective one; starts at `name` itself, as Kafka
    does."""
    names = synonyms(name)
    found: list[Synonym] = []
    for source, layer in (
        (Source.DYNAMIC_BROKER, config.own),
        (Source.DYNAMIC_DEFAULT_BROKER, config.cluster),
        (Source.STATIC_BROKER, config.static),
    ):
        found += [Synonym(n, _hide(name, layer[n]), source) for n in names if n in layer]
    for n in names:
        row = BROKER.get(n)
        default = None if row is None else render(row.default_value(), row.type)
        if n in _NO_DEFAULT:
            if not found and default:
                found.append(Synonym(n, default, Source.STATIC_BROKER))
        elif default is not None:
            found.append(Synonym(n, _hide(name, default), Source.DEFAULT))
    start = next((i for i, synonym in enumerate(found) if synonym.name == name), len(found))
    return tuple(found[start:])


class _Layer(NamedTuple):
    """Settings that lie over broker settings. broker_names: those, by setting. has_own: settings
    without a broker setting list their own default."""

    source: Source
    rows: Mapping[str, Setting]
    broker_names: Mapping[str, str]
    has_own: bool = False


def _layered(
    layer: _Layer, values: Mapping[str, Value], overrides: Mapping[str, str], config: BrokerConfig, keys: Keys
) -> Iterator[Entry]:
    """Entries of a layer with these values, of which `overrides` are set."""
    shown = (name for name, row in layer.rows.items() if not row.internal or name in overrides)
    for name in _selected(shown, keys):
        row = layer.rows[name]
        value = render(values[name], row.type)
        layers: list[Synonym] = [Synonym(name, value, layer.source)] if name in overrides else []
        if name in layer.broker_names:
            layers += broker_synonyms(config, layer.broker_names[name])
        elif layer.has_own:
            layers.append(Synonym(name, render(row.default_value(), row.type), Source.DEFAULT))
        every = tuple(layers)
        yield Entry(name, value, _source(every), False, row.sensitive, every, row.type, documentation(row))


def _broker_entry(
    config: BrokerConfig, name: str, layers: tuple[Synonym, ...], text: str | None = None
) -> Entry:
    row = row_of(name)
    if text is None and name in BROKER:
        text = render(config.value(name), BROKER[name].type)
    elif text is None:
        text = layers[0].value if layers else None
    kind = Type.UNKNOWN if row is None else row.type
    hidden = is_sensitive(name)
    return Entry(
        name,
        _hide(name, text),
        _source(layers),
        not is_dynamic(name),
        hidden,
        layers,
        kind,
        documentation(row),
    )


def _source(layers: tuple[Synonym, ...]) -> Source:
    return layers[0].source if layers else Source.DEFAULT


def _hide(name: str, text: str | None) -> str | None:
    return None if is_sensitive(name) else text


def _selected(names: Iterable[str], keys: Keys) -> Iterator[str]:
    """The names among `keys`, or all names when keys is None or empty."""
    return (name for name in _listed(tuple(names)) if not keys or name in keys)


@lru_cache(maxsize=64)
def _listed(names: tuple[str, ...]) -> list[str]:
    """Names of settings in the order of Kafka's map of all settings of the resource: some clients
    read only the first."""
    return map_order(names, string_hash)

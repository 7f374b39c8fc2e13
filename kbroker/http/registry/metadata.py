"""Metadata and rules of versions: those that a new version gets, and what its properties decide.
Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kbroker.http.registry.topic_records import SchemaRow


def properties(row: SchemaRow) -> Mapping[str, Any] | None:
    """The properties in the metadata of a version, if it has any metadata with properties."""
    metadata = dict(row.extra).get("metadata")
    found = metadata.get("properties") if isinstance(metadata, dict) else None
    return found if isinstance(found, dict) else None


def populated(row: SchemaRow, kept: Sequence[SchemaRow], config: Mapping[str, Any]) -> SchemaRow:
    """A new version with its metadata and rules: its own, else those of the latest version, merged
    into the defaults of its settings, and their overrides merged into that. A client that registers
    a schema without them, as serializers do, does not remove the rules of a subject."""
    own, before = dict(row.extra), dict(kept[-1].extra) if kept else {}
    extra = []
    for name, part, merge in (
        ("metadata", "Metadata", merged_metadata),
        ("ruleSet", "RuleSet", merged_rules),
    ):
        specific = own.get(name) if own.get(name) is not None else before.get(name)
        value = merge(merge(config.get(f"default{part}"), specific), config.get(f"override{part}"))
        if value is not None:
            extra.append((name, value))
    return replace(row, extra=tuple(extra))


def has_defaults_or_overrides(config: Mapping[str, Any]) -> bool:
    """Whether the settings of a subject change the metadata or rules of each new version."""
    names = ("defaultMetadata", "overrideMetadata", "defaultRuleSet", "overrideRuleSet")
    return any(config.get(name) is not None for name in names)


def in_group(config: Mapping[str, Any], row: SchemaRow, kept: Sequence[SchemaRow]) -> list[SchemaRow]:
    """The versions with which a schema is compared: with `compatibilityGroup`, those with the same
    value of this property."""
    group = config.get("compatibilityGroup")
    if not isinstance(group, str):
        return list(kept)
    value = (properties(row) or {}).get(group)
    return [one for one in kept if (properties(one) or {}).get(group) == value]


def merged_metadata(old: Any, new: Any) -> Any:
    """Tags and properties of both, the new ones where both have them; all sensitive names."""
    return _merged(old, new, _joined)


def merged_rules(old: Any, new: Any) -> Any:
    """The rules of both; of those with one name the new one."""
    return _merged(old, new, _replaced)


def _merged(old: Any, new: Any, merge: Callable[[Any, Any], Any]) -> Any:
    """Two objects, their members merged. What is no object, as a client may send, is replaced."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return old if new is None else new
    both = {name: merge(old[name], new[name]) for name in old if name in new}
    return old | new | both


def _joined(old: Any, new: Any) -> Any:
    if isinstance(old, dict) and isinstance(new, dict):
        return old | new
    if isinstance(old, list) and isinstance(new, list) and all(isinstance(one, str) for one in old + new):
        return sorted({*old, *new})
    return new or old


def _replaced(old: Any, new: Any) -> Any:
    if not isinstance(old, list) or not isinstance(new, list):
        return new or old
    names = {_name(one) for one in new}
    return [*(one for one in old if _name(one) not in names), *new]


def _name(rule: Any) -> str:
    return str(rule.get("name")) if isinstance(rule, dict) else ""

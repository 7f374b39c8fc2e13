"""Caches lists of settings for DescribeConfigs: most resources have the same settings."""

from kbroker.api.config_entries import entries_of
from kbroker.config.describe import Entry, Keys
from kbroker.control.broker import Broker
from kbroker.control.metadata.config_resource import BROKER
from kbroker.protocol.messages.describe_configs import DescribeConfigsResourceResult, DescribeConfigsSynonym
from kbroker.protocol.slices import Names

Listed = list[DescribeConfigsResourceResult]
MAX_KEPT = 256
MAX_KEYS = 256
"""Answers to requests for more settings are not kept."""
"""Maximum number of cached lists, so that requests with many combinations of keys do not fill the
memory."""


class ConfigResults:
    """Lists by the settings of the resource, not by its name. Valid until any settings change.

    Runs in: control. Owner: Dispatch.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._good_for = -1
        self._kept: dict[object, Listed] = {}

    def get(self, kind: int, name: str, keys: Keys, synonyms: bool, documentation: bool) -> Listed:
        """The settings of an existing resource. Callers must not change the list. Raises
        KafkaError, ConfigError."""
        if self._good_for != self._broker.version or len(self._kept) >= MAX_KEPT:
            self._kept.clear()
            self._good_for = self._broker.version
        overrides = tuple(self._broker.override(kind, name).items())
        node = name if kind == BROKER else ""
        key = kind, node, overrides, None if isinstance(keys, Names) else keys, synonyms, documentation
        listed = None if isinstance(keys, Names) else self._kept.get(key)
        if listed is None:
            entries = entries_of(self._broker, kind, name, keys)
            listed = [shown(entry, synonyms, documentation) for entry in entries]
            if not isinstance(keys, Names):
                self._kept[key] = listed
        return listed


def keys_of(names: list[str] | None) -> Keys:
    """The settings that a request names; None for all."""
    if not names:
        return None
    return frozenset(names) if len(names) <= MAX_KEYS else Names(names)


def shown(entry: Entry, synonyms: bool, documentation: bool) -> DescribeConfigsResourceResult:
    """A setting in the form of the answer."""
    return DescribeConfigsResourceResult(
        entry.name,
        entry.value,
        entry.read_only,
        entry.source,
        entry.sensitive,
        [DescribeConfigsSynonym(s.name, s.value, s.source) for s in entry.synonyms] if synonyms else [],
        entry.type,
        entry.documentation if documentation else None,
    )

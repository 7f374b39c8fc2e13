"""Settings as DescribeConfigs lists them, kept for those who ask next: resources mostly have the
same ones."""

from kbroker.api.config_entries import entries_of
from kbroker.config.describe import Entry
from kbroker.control.broker import Broker
from kbroker.control.metadata.config_resource import BROKER
from kbroker.protocol.messages.describe_configs import DescribeConfigsResourceResult, DescribeConfigsSynonym

Listed = list[DescribeConfigsResourceResult]
MAX_KEPT = 256
"""Lists that are kept; who asks for every combination of keys does not fill the memory."""


class ConfigResults:
    """Lists by what they depend on: what is set for the resource, not its name. Good until any
    settings change.

    Runs in: control. Owner: the process's main.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._good_for = -1
        self._kept: dict[object, Listed] = {}

    def get(
        self, kind: int, name: str, keys: list[str] | None, synonyms: bool, documentation: bool
    ) -> Listed:
        """The settings of a resource that is there. Not to be changed. Raises KafkaError,
        ConfigError."""
        if self._good_for != self._broker.version or len(self._kept) >= MAX_KEPT:
            self._kept.clear()
            self._good_for = self._broker.version
        overrides = tuple(self._broker.override(kind, name).items())
        node = name if kind == BROKER else ""
        key = kind, node, overrides, tuple(keys or ()), synonyms, documentation
        listed = self._kept.get(key)
        if listed is None:
            entries = entries_of(self._broker, kind, name, keys)
            listed = self._kept[key] = [shown(entry, synonyms, documentation) for entry in entries]
        return listed


def shown(entry: Entry, synonyms: bool, documentation: bool) -> DescribeConfigsResourceResult:
    """A setting as the answer has it."""
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

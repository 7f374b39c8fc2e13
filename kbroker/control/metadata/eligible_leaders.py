"""Eligible leader replicas (KIP-966): which replicas may lead is decided by one min.insync.replicas
for all brokers."""

from collections.abc import Mapping

from kbroker.config.alter import MIN_ISR
from kbroker.config.broker import BROKER as BROKER_ROWS
from kbroker.config.setting import render
from kbroker.control.metadata.config_resource import BROKER
from kbroker.control.metadata.features import finalized
from kbroker.control.store.change import ConfigKey

FEATURE = "eligible.leader.replicas.version"


def are_on(features: Mapping[str, int]) -> bool:
    """Whether the stored levels, or the defaults, put the feature in force."""
    return finalized(features, ()).get(FEATURE, 0) > 0


def one_min_isr(
    stored: Mapping[ConfigKey, Mapping[str, str]], static: Mapping[str, str]
) -> dict[ConfigKey, dict[str, str | None]]:
    """Changes of dynamic configs: the file's value becomes that of all brokers, unless these have
    one; a broker's own is deleted (ConfigurationControlManager.maybeGenerateElrSafetyRecords)."""
    changes: dict[ConfigKey, dict[str, str | None]] = {
        key: {MIN_ISR: None} for key, configs in stored.items() if key[0] == BROKER and MIN_ISR in configs
    }
    changes.pop((BROKER, ""), None)
    if MIN_ISR not in stored.get((BROKER, ""), {}):
        default = render(BROKER_ROWS[MIN_ISR].default_value())
        changes[BROKER, ""] = {MIN_ISR: static.get(MIN_ISR, default)}
    return changes

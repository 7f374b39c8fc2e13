"""Features a cluster can finalize (KIP-584): the levels that this broker knows, and those in force.

A feature is listed only when the APIs that its levels promise are served; level 0 is "off". Two of
Kafka's features make no difference on one host: which replicas may lead a partition without any in
sync (KIP-966), and how voters of the metadata quorum change (KIP-853).
"""

from collections.abc import Collection, Mapping

from msgspec import Struct

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


class Feature(Struct, frozen=True):
    """Levels known, the one a new broker starts with, and the API without which the feature is not
    offered."""

    min_level: int
    max_level: int
    default: int
    needs: ApiKey | None = None


FEATURES: Mapping[str, Feature] = {
    "eligible.leader.replicas.version": Feature(0, 1, 1),
    "group.version": Feature(0, 1, 1, ApiKey.CONSUMER_GROUP_HEARTBEAT),
    "kraft.version": Feature(0, 1, 0),
    "metadata.version": Feature(7, 30, 30),
    "share.version": Feature(0, 1, 1, ApiKey.SHARE_FETCH),
    "streams.version": Feature(0, 1, 1, ApiKey.STREAMS_GROUP_HEARTBEAT),
    "transaction.version": Feature(0, 2, 2, ApiKey.END_TXN),
}


def offered(served: Collection[int]) -> dict[str, Feature]:
    """The features of a broker that serves these APIs."""
    return {
        name: feature
        for name, feature in FEATURES.items()
        if feature.needs is None or feature.needs in served
    }


def finalized(stored: Mapping[str, int], served: Collection[int]) -> dict[str, int]:
    """Levels in force: stored ones, else defaults. Level 0 is left out, as Kafka does."""
    levels = {name: stored.get(name, feature.default) for name, feature in offered(served).items()}
    return {name: level for name, level in levels.items() if level > 0}


def check_update(
    name: str,
    level: int,
    upgrade_type: int,
    current: Mapping[str, int],
    served: Collection[int],
    node_id: int,
) -> None:
    """Check that a level may be set (FeatureControlManager). Raises KafkaError."""

    def refuse(why: str) -> KafkaError:
        return KafkaError(
            ErrorCode.INVALID_UPDATE_VERSION, f"Invalid update version {level} for feature {name}. {why}"
        )

    feature = offered(served).get(name)
    if upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        raise refuse("The controller does not support the given upgrade type.")
    if level < 0:
        raise refuse("A feature version cannot be less than 0.")
    if feature is None and level == 0:
        raise refuse(f"Feature {name} not found.")
    if feature is None:
        raise refuse(f"Local controller {node_id} does not support this feature.")
    if not feature.min_level <= level <= feature.max_level:
        raise refuse(
            f"Local controller {node_id} only supports versions {feature.min_level}-{feature.max_level}"
        )
    now = current.get(name, 0)
    if level < now and upgrade_type == UPGRADE:
        raise refuse(
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or "
            "unsafe downgrade."
        )
    if level > now and upgrade_type != UPGRADE:
        raise refuse("Can't downgrade to a newer version.")
    if name == "kraft.version" and level < now:
        raise refuse("Can't downgrade the version of this feature.")
    if name == "metadata.version" and level < now:
        why = "Refusing to perform the requested downgrade because it might delete metadata information."
        if upgrade_type == UNSAFE_DOWNGRADE:
            why = "Unsafe metadata downgrade is not supported in this version."
        raise KafkaError(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"Unsupported metadata.version downgrade from {now} to {level}. {why}",
        )

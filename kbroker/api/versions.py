"""The versions of every advertised API, for processes that import no handlers.

They are those of the generated messages, except for the APIs named here. The rows in the API files
are the same.
"""

from collections.abc import Mapping
from typing import Final

from kbroker.config.broker import BrokerConfig
from kbroker.config.telemetry import takes_telemetry
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.index import APIS

OTHERS: Final = {ApiKey.PRODUCE: (0, 13), ApiKey.INIT_PRODUCER_ID: (0, 5)}
"""librdkafka checks Produce from 0 on; two-phase commit (InitProducerId 6) is not served."""
VERSIONS: Final[Mapping[int, tuple[int, int]]] = {
    key: (api.min_version, api.max_version) for key, api in APIS.items()
} | OTHERS
"""First and last version by key."""
TELEMETRY: Final = frozenset((ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY))


def served(config: BrokerConfig) -> Mapping[int, tuple[int, int]]:
    """Versions of the APIs that a broker with these settings advertises: as in Kafka, telemetry
    only if something receives it."""
    if takes_telemetry(config):
        return VERSIONS
    return {key: versions for key, versions in VERSIONS.items() if key not in TELEMETRY}

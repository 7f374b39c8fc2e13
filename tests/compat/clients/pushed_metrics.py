"""Metrics that clients push (KIP-714)."""

from kbroker.protocol.api_keys import ApiKey
from tests.compat.raw import SocketPeer
from tests.peer.kbroker_node import KBroker
from tests.peer.scrape import Scrape

VALUE, TOTAL = "kbroker_client_metric_value", "kbroker_client_metric_total"


def subscribe(node: KBroker, name: str, **settings: str) -> None:
    """What `kbroker client-metrics alter` does, without a process."""
    from kbroker.protocol.messages.incremental_alter_configs import (
        AlterableConfig,
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
    )

    configs = [AlterableConfig(key, 0, value) for key, value in settings.items()]
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(16, name, configs)])
    port = int(node.bootstrap.rpartition(":")[2])
    answer = SocketPeer(port).ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)
    assert [one.error_code for one in answer.responses] == [0]  # type: ignore[union-attr]


def metrics_of(found: Scrape, client_id: str) -> set[str]:
    return {
        labels["metric"]
        for name in (VALUE, TOTAL)
        for labels in found.labels(name)
        if labels["client_id"] == client_id
    }

"""franz-go pushes its own metrics (KIP-714), and /metrics shows them."""

import pytest

from tests.compat.clients.conftest import SETTINGS
from tests.compat.clients.pushed_metrics import metrics_of, subscribe
from tests.compat.neighbours.building import CACHE, HERE, built
from tests.conftest import BrokerFactory
from tests.peer.eventually import eventually
from tests.peer.program import program
from tests.peer.scrape import scrape

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(580)]

PRODUCER = "org.apache.kafka.producer."


def test_franz_go_pushes_subscribed_metrics(broker_factory: BrokerFactory) -> None:
    client = CACHE / "franz-metrics"
    built(["go", "build", "-o", str(client), "."], HERE / "franz_go_metrics")
    node = broker_factory(SETTINGS | {"kbroker.client.telemetry.enable": "true"})
    subscribe(node, "franz", metrics=PRODUCER, match="client_id=franz-.*", **{"interval.ms": "500"})
    with program([client, node.bootstrap, "of-go"]) as running:
        eventually(lambda: bool(metrics_of(scrape(node), "franz-1")))
        found = scrape(node)
        assert all(name.startswith(PRODUCER) for name in metrics_of(found, "franz-1"))
        (info,) = [one for one in found.labels("kbroker_client_info") if one["client_id"] == "franz-1"]
        assert info["software_name"] == "kgo"
        assert running.poll() is None

"""The context of a request: client, broker, versions."""

from msgspec import Struct

from kbroker.api.config_results import ConfigResults
from kbroker.config.listeners import Endpoint
from kbroker.control.broker import Broker
from kbroker.control.services import Services
from kbroker.ipc.messages import ClientRequest


class RequestContext(Struct, frozen=True):
    """The context of one request. Runs in: control. services: the state that handlers read and
    change, and services for longer work. configs: cached lists of DescribeConfigs.

    narrowed: the answer is only valid for this client, or for a part of its request; it must not be
    cached. topics_version: AnswerVersions.topics when the request began."""

    services: Services
    configs: ConfigResults
    client: ClientRequest
    narrowed: bool = False
    topics_version: int | None = None

    @property
    def broker(self) -> Broker:
        """The state of the broker."""
        return self.services.broker

    @property
    def version(self) -> int:
        """Version of the request and of its answer."""
        return self.client.api_version

    @property
    def client_id(self) -> str:
        """The client id; empty if the client sent none."""
        return self.client.client_id or ""

    @property
    def endpoint(self) -> Endpoint:
        """The advertised address of the listener by which this client is connected."""
        return self.broker.nodes.endpoint(self.client.listener, self.client.site)

    def nodes(self) -> list[tuple[int, str, int]]:
        """Id, host and port of every node, for this client: one node per replica site."""
        found = []
        for site in self.broker.nodes.sites:
            endpoint = self.broker.nodes.endpoint(self.client.listener, site.number)
            found.append((site.node_id, endpoint.host, endpoint.port))
        return found

    @property
    def node_id(self) -> int:
        """The node to which this client is connected."""
        return self.broker.nodes.sites[self.client.site].node_id

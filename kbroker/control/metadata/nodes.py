"""The nodes that clients see: the broker, and its further replica sites."""

from collections.abc import Iterable, Mapping

from kbroker.config.broker import BrokerConfig
from kbroker.config.listeners import Endpoint
from kbroker.config.sites import Site, port_key, sites_of
from kbroker.control.metadata.catalogue import Replica
from kbroker.control.metadata.placement import workers_of_sites


class Nodes:
    """Runs in: control. Owner: the Broker.

    sites: the replica sites (groups of log directories), by number. endpoints: the advertised
    address of each listener, real ports; others: those of further sites, by `port_key`.
    """

    def __init__(
        self, config: BrokerConfig, endpoints: Mapping[str, Endpoint], others: Mapping[str, Endpoint]
    ) -> None:
        self.sites = sites_of(config)
        self.endpoints = dict(endpoints)
        self._others = dict(others)
        self._site_of = {log_dir: site for site in self.sites for log_dir in site.log_dirs}

    def site_of(self, log_dir: str) -> Site:
        """The site of a log directory; the first site for a directory that no site has any more."""
        return self._site_of.get(log_dir, self.sites[0])

    def replica_beside(self, replicas: Iterable[Replica], log_dir: str) -> Replica | None:
        """The replica on the site of a log directory."""
        site = self.site_of(log_dir)
        return next((one for one in replicas if self.site_of(one.log_dir) is site), None)

    def endpoint(self, listener: str, site: int) -> Endpoint:
        """The address of a node as sent to clients."""
        return self._others.get(port_key(listener, site)) or self.endpoints[listener]

    def node_of(self, replica: Replica) -> int:
        """Node id of the site that holds a replica."""
        return self.site_of(replica.log_dir).node_id

    def of(self, replicas: Iterable[Replica]) -> list[int]:
        """Node ids of replicas."""
        return [self.node_of(replica) for replica in replicas]

    def log_dirs(self) -> list[tuple[str, ...]]:
        """The log directories of each site."""
        return [site.log_dirs for site in self.sites]

    def log_dirs_of_same_site(self) -> dict[str, tuple[str, ...]]:
        """All log directories of the same site, by log directory: a log moves between them."""
        return {path: site.log_dirs for site in self.sites for path in site.log_dirs}

    def workers(self, count: int) -> dict[str, tuple[int, ...]]:
        """The IO workers, of `count`, that may write to each log directory."""
        return workers_of_sites(self.log_dirs(), count)

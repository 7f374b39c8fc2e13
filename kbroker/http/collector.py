"""The samples of one scrape, as text."""

import threading
import time
from collections.abc import Callable, Collection

from kbroker.config.sites import sites_of
from kbroker.http.broker_rows import BrokerRows
from kbroker.http.certificates import Certificates
from kbroker.http.client_rows import ClientRows
from kbroker.http.control_view import ControlView
from kbroker.http.families import ROWS, Dialect, Families
from kbroker.http.group_progress import GroupProgress
from kbroker.http.group_rows import GroupRows
from kbroker.http.health import Health
from kbroker.http.host_limits import HostLimits
from kbroker.http.host_rows import HostRows
from kbroker.http.page_cache import PageCache
from kbroker.http.partition_rows import PartitionRows
from kbroker.http.process_rows import ProcessRows
from kbroker.http.quota_rows import QuotaRows
from kbroker.http.recent_readings import RecentReadings
from kbroker.http.series import Prefixes
from kbroker.ipc.child import ChildContext
from kbroker.metrics.slots import Slots, bind

SCRAPES = bind("kbroker_scrapes_total")
SCRAPE_SECONDS = bind("kbroker_scrape_seconds")


class BrokerCollector:
    """Runs in: http. One scrape at a time: scrapes share earlier readings."""

    def __init__(
        self,
        context: ChildContext,
        view: ControlView,
        health: Health,
        page_cache: PageCache,
        acceptor: int,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        shared, config = context.shared, context.config
        listeners = config.listeners
        self._view = view
        self._page_cache = page_cache
        self._clock_s = clock_s
        self._kafka = config.get_bool("kbroker.metrics.kafka.names")
        self._slots = Slots(shared.metrics[context.process])
        names = [endpoint.listener for endpoint in listeners]
        self._processes = ProcessRows(shared, names, RecentReadings(clock_s), RecentReadings(clock_s))
        max_partitions = config.get_int("kbroker.metrics.partitions.max")
        details = config.get_int("kbroker.metrics.details.max")
        self._partitions = PartitionRows(shared, sites_of(config), max_partitions, details)
        self.progress = GroupProgress(shared, page_cache, clock_s)
        self._groups = GroupRows(shared, max_partitions, details, self.progress)
        self._clients = ClientRows(names)
        self._quotas = QuotaRows(clock_s)
        self.limits = HostLimits(config.get_str("kbroker.host.file"))
        self._hosts = HostRows(
            shared, acceptor, context.log_dirs, RecentReadings(clock_s), limits=self.limits
        )
        self.forecasts = self._hosts.forecasts
        first = listeners[0]
        address = f"{first.host}:{context.ports.get(first.listener, first.port)}"
        self._broker = BrokerRows(context, health, address, Certificates(config))
        self._prefixes = Prefixes(ROWS)
        self._lock = threading.Lock()

    def text(
        self, openmetrics: bool = False, names: Collection[str] = (), dialect: Dialect = Dialect.ALL
    ) -> bytes:
        """All families of the dialect, also those without samples; with names, only the named
        ones."""
        with self._lock:
            families = Families(self._kafka and dialect is not Dialect.KBROKER, self._prefixes)
            self.progress.scraped_s = self._clock_s()
            directory = self._view.directory
            self._processes.add(families)
            self._partitions.add(families, directory)
            self._page_cache.add(families, directory, self._partitions.shown_topics)
            self._groups.add(families, directory, self._view.groups())
            clients = self._view.clients()
            self._clients.add(families, clients)
            self._quotas.add(families, clients.use.quotas, clients.use.quotas_left_out)
            self._broker.add(families)
            self._hosts.add(families)
        return families.text(openmetrics, names, dialect)

    def scraped(self, began_s: float) -> None:
        """Count a scrape that is ready to be sent: rendered and compressed."""
        with self._lock:
            self._slots.words[SCRAPES] += 1
            self._slots.observe(SCRAPE_SECONDS, int((self._clock_s() - began_s) * 1e9))

    def now_s(self) -> float:
        """The clock of `scraped`."""
        return self._clock_s()

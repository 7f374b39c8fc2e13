"""All facts that a knob or a rule may read."""

from dataclasses import dataclass, field

from kbroker.config.broker import BrokerConfig
from tuning.coefficients import BrokerCosts, Coefficients
from tuning.host.host import Host
from tuning.live import Live
from tuning.workload import Workload

IO_SPARE_FILES = 1024  # descriptors of an IO worker beside its logs
FILES_OF_A_LOG = 3
READ_FILES = 8192  # segment files and indexes that a network process has open at most
TLS_CONNECTION = 4  # descriptors of a connection with TLS in a network process


@dataclass(frozen=True, slots=True)
class Situation:
    """live: None without a running broker. recent: the same with the totals of the last seconds;
    None without two readings. assumed: fields of the workload without a source;
    findings that depend on them would rest on a guess."""

    host: Host = field(default_factory=Host)
    workload: Workload = field(default_factory=Workload)
    config: BrokerConfig = field(default_factory=BrokerConfig)
    coefficients: Coefficients = field(default_factory=Coefficients)
    live: Live | None = None
    recent: Live | None = None
    assumed: frozenset[str] = frozenset()

    def knows(self, *names: str) -> bool:
        """Whether these fields of the workload are more than guesses."""
        return not self.assumed & set(names)

    @property
    def room_bytes(self) -> int | None:
        """Bytes for logs: free space below log.dirs plus the existing logs; None if no disk is
        visible."""
        if not any(mount.total_bytes for mount in self.host.mounts):
            return None
        return sum(mount.free_bytes for mount in self.host.mounts) + self.held_bytes

    @property
    def held_bytes(self) -> int:
        """Bytes of the existing logs."""
        shown = self.live.total("kbroker_topic_log_bytes") if self.live is not None else 0.0
        return max(int(shown), self.host.held_bytes)

    @property
    def costs(self) -> BrokerCosts:
        """The resources of this host that kbroker takes."""
        return BrokerCosts().on(self.coefficients)

    @property
    def network_processes(self) -> int:
        return self.config.get_int("num.network.threads")

    @property
    def io_workers(self) -> int:
        return self.config.get_int("num.io.threads")

    @property
    def replicas(self) -> int:
        """Logs on this host, internal topics included."""
        internal = self.config.get_int("offsets.topic.num.partitions")
        return (self.workload.partitions + internal) * self.workload.copies

    @property
    def files_needed(self) -> int:
        """Descriptors of the process that needs most: an IO worker (three files a log that is
        appended to) or a network process (its connections and the files it reads), with a quarter
        to spare."""
        worker = FILES_OF_A_LOG * -(-self.replicas // self.io_workers) + IO_SPARE_FILES
        connections = -(-self.workload.connections // self.network_processes)
        network = connections * (TLS_CONNECTION if self.workload.tls else 1) + READ_FILES
        return int(max(worker, network) * 1.25)

    @property
    def arena_bytes(self) -> int:
        """Address space of all arenas: those of the network processes and control's."""
        return self.config.get_int("kbroker.arena.bytes") * (self.network_processes + 1)

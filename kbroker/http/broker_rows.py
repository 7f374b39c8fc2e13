"""Samples of the broker as a whole: identity, rings, log dirs, readiness."""

from msgspec import Struct

from kbroker import __version__
from kbroker.http.certificates import Certificates
from kbroker.http.families import Families
from kbroker.http.health import Health
from kbroker.http.process_rows import process_names
from kbroker.ipc.child import ChildContext
from kbroker.ipc.log_dir_errors import LogDirErrors
from kbroker.ipc.ring import ring_length
from kbroker.ipc.store_copy_states import CURRENT, StoreCopyStates


class BrokerRows(Struct, frozen=True):
    """Runs in: http. address: host and port of the first listener, for kafka_broker_info."""

    context: ChildContext
    health: Health
    address: str
    certificates: Certificates

    def add(self, families: Families) -> None:
        """Samples without a topic or process label."""
        node = str(self.context.config.node_id)
        families.add("kbroker_info", (__version__, node, self.context.cluster_id), 1)
        families.add("kbroker_ready", (), int(not self.health.not_ready()))
        families.add("kbroker_ring_capacity", (), self.context.shared.sizes.ring_entries)
        errors = LogDirErrors(self.context.config.log_dirs, self.context.shared)
        for path in errors.paths:
            families.add("kbroker_log_dir_offline", (path,), int(errors.of(path) != 0))
        for listener, expiry_s in self.certificates.expiries():
            families.add("kbroker_tls_certificate_expiry_timestamp_seconds", (listener,), expiry_s)
        self._store_copies(families, errors)
        appends, completions = self._rings(families)
        if not families.kafka:
            return
        families.add("kafka_network_requestchannel_requestqueuesize", (), appends)
        families.add("kafka_network_requestchannel_responsequeuesize", (), completions)
        families.add("kafka_log_logmanager_offlinelogdirectorycount", (), len(errors.failed))
        families.add("kafka_controller_kafkacontroller_activecontrollercount", (), 1)
        families.add("kafka_brokers", (), 1)
        families.add("kafka_broker_info", (node, self.address), 1)

    def _store_copies(self, families: Families, errors: LogDirErrors) -> None:
        states = StoreCopyStates(self.context.config.log_dirs, self.context.shared)
        for path in states.paths:
            if word := states.of(path):
                state = "lost" if errors.of(path) else "current" if word == CURRENT else "stale"
                for name in ("current", "stale", "lost"):
                    families.add("kbroker_store_copy", (path, name), int(name == state))

    def _rings(self, families: Families) -> tuple[int, int]:
        shared = self.context.shared
        names = process_names(shared)
        totals = {"append": 0, "completion": 0}
        for client in range(shared.sizes.clients):
            for worker in range(shared.sizes.workers):
                for ring, address in (
                    ("append", shared.append_ring(client, worker)),
                    ("completion", shared.completion_ring(client, worker)),
                ):
                    length = int(ring_length(address))
                    totals[ring] += length
                    worker_name = names[shared.worker_process(worker)]
                    families.add("kbroker_ring_entries", (ring, names[client], worker_name), length)
        return totals["append"], totals["completion"]

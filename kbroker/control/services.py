"""The services of control, by name: the objects besides the broker's state that serve requests and
messages."""

from msgspec.structs import replace

from kbroker.control.audit.log import AuditLog
from kbroker.control.broker import Broker
from kbroker.control.changes.log_dir_moves import LogDirMoves
from kbroker.control.changes.mutation_quotas import MutationQuotas
from kbroker.control.clients.service import ClientReports
from kbroker.control.groups.service import GroupService
from kbroker.control.replication.service import Replication
from kbroker.control.share.service import ShareService
from kbroker.control.telemetry.service import TelemetryService
from kbroker.control.transactions.service import TransactionService
from kbroker.ipc.http_messages import ClientMetrics
from kbroker.protocol.errors import ErrorCode, KafkaError


class Services:
    """Runs in: control. Owner: the process's main. audit: None when nothing is audited."""

    def __init__(self, broker: Broker, audit: AuditLog | None = None) -> None:
        self.broker = broker
        self.audit = audit
        self.replication = Replication(broker)
        self.moves = LogDirMoves(broker, self.replication)
        self.mutation_quotas = MutationQuotas(broker)
        self.telemetry = TelemetryService(broker)
        self.clients = ClientReports(broker)
        self._groups: GroupService | None = None
        self._transactions: TransactionService | None = None
        self._shares: ShareService | None = None

    def coordinate(
        self,
        groups: GroupService,
        transactions: TransactionService | None = None,
        shares: ShareService | None = None,
    ) -> None:
        """The coordinators that run from now on."""
        self._groups = groups
        self._transactions = transactions
        self._shares = shares

    def client_metrics(self) -> ClientMetrics:
        """The metrics of clients."""
        return replace(self.telemetry.pushed(), use=self.clients.use())

    @property
    def groups(self) -> GroupService:
        """Raises COORDINATOR_NOT_AVAILABLE while there is none."""
        if self._groups is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return self._groups

    @property
    def transactions(self) -> TransactionService:
        """Raises COORDINATOR_NOT_AVAILABLE while there is none."""
        if self._transactions is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return self._transactions

    @property
    def shares(self) -> ShareService:
        """Raises COORDINATOR_NOT_AVAILABLE while there is none."""
        if self._shares is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return self._shares

"""The services of control, by name: the objects besides the broker's state that serve requests and
messages. Among them are the coordinators: which machines run, each over its internal topic."""

import asyncio
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from kbroker.control.audit.log import AuditLog
from kbroker.control.broker import Broker
from kbroker.control.changes.auto_creation import AutoCreation
from kbroker.control.changes.log_dir_moves import LogDirMoves
from kbroker.control.changes.mutation_quotas import MutationQuotas
from kbroker.control.clients.service import ClientReports
from kbroker.control.coordinator.runtime import Runtime
from kbroker.control.groups.service import GroupService
from kbroker.control.links.appender import Appender
from kbroker.control.metadata.topic_name import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
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
        self.auto_creation = AutoCreation(broker)
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


def make_coordinators(
    services: Services, appender: Appender, announce: Callable[[int], None]
) -> Sequence[Runtime]:
    """Make them and enter them into the services; called once, from the running loop of control.

    announce(slot number): sets control's waiter bit in a slot.
    """
    broker, loop = services.broker, asyncio.get_running_loop()
    number = broker.config.get_int
    groups = Runtime(broker, appender, CONSUMER_OFFSETS, loop, number("offsets.commit.timeout.ms"))
    group_service = GroupService(broker, groups, appender)
    group_service.start()
    transactions = Runtime(broker, appender, TRANSACTION_STATE, loop)
    transaction_service = TransactionService(broker, transactions, appender, group_service)
    transaction_service.start()
    write_ms = number("share.coordinator.write.timeout.ms")
    shares = Runtime(broker, appender, SHARE_GROUP_STATE, loop, write_ms)
    share_service = ShareService(broker, group_service, shares, announce, appender.append)
    appender.slot_listeners.append(share_service.slot_advanced)
    services.coordinate(group_service, transaction_service, share_service)
    return groups, transactions, shares

"""Main of the control process: passes the APIs and the coordinators to kbroker.control."""

from collections.abc import Sequence

from kbroker.api.registry import Dispatch
from kbroker.control import worker
from kbroker.control.broker import Broker
from kbroker.control.coordinator.runtime import Runtime
from kbroker.control.links.appender import Appender
from kbroker.control.services import Services, make_coordinators
from kbroker.ipc.child import ChildContext
from kbroker.net.rows.topic_kernel import announce_waiter


def main(context: ChildContext) -> None:
    """Entry of the role "control"."""
    shared = context.shared

    def announce(slot: int) -> None:
        announce_waiter(shared.slots[slot].ctypes.data, shared.control_client)

    def coordinators(services: Services, appender: Appender) -> Sequence[Runtime]:
        check_tls_changes(services.broker)
        return make_coordinators(services, appender, announce)

    worker.main(context, Dispatch, coordinators)


def check_tls_changes(broker: Broker) -> None:
    """Let new settings of TLS listeners be checked before they are stored."""
    if any(endpoint.protocol.tls for endpoint in broker.config.listeners):
        from kbroker.net.security.tls_changes import TlsChanges  # most brokers have no TLS

        broker.listeners.settings.append(TlsChanges(broker.config).check)

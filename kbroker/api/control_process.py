"""Main of the control process: passes the APIs and the coordinators to kbroker.control."""

from collections.abc import Sequence

from kbroker.api.registry import Dispatch
from kbroker.control import worker
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
        return make_coordinators(services, appender, announce)

    worker.main(context, Dispatch, coordinators)

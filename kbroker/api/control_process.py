"""Main of the control process: the control room with the API list and the coordinators put in."""

from collections.abc import Sequence

from kbroker.api.registry import dispatch
from kbroker.control import worker
from kbroker.control.appender import Appender
from kbroker.control.broker import Broker
from kbroker.control.runtime import Runtime
from kbroker.ipc.child import ChildContext


def coordinators(broker: Broker, appender: Appender) -> Sequence[Runtime]:
    """The coordinators of this broker."""
    return ()


def main(context: ChildContext) -> None:
    """Entry of the role "control"."""
    worker.main(context, dispatch, coordinators)

"""Main of the control process: the control room with the API list and the coordinators put in."""

from kbroker.api.registry import dispatch
from kbroker.control import worker
from kbroker.control.coordinators import make_coordinators
from kbroker.ipc.child import ChildContext


def main(context: ChildContext) -> None:
    """Entry of the role "control"."""
    worker.main(context, dispatch, make_coordinators)

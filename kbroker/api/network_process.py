"""Main of a network process: the net room with the API list put in."""

from kbroker.api.registry import APIS
from kbroker.ipc.child import ChildContext
from kbroker.net import worker


def main(context: ChildContext) -> None:
    """Entry of the role "network"."""
    served = {key: (api.min_version, api.max_version) for key, api in APIS.items()}
    worker.main(context, {}, served)

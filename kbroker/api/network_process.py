"""Main of a network process: the net room with the API list put in."""

from kbroker.api import api_versions
from kbroker.api.error_counts import ErrorCounts
from kbroker.api.registry import APIS
from kbroker.ipc.child import ChildContext
from kbroker.metrics.slots import Slots
from kbroker.net import worker


def main(context: ChildContext) -> None:
    """Entry of the role "network"."""
    served = {key: (api.min_version, api.max_version) for key, api in APIS.items()}
    first = api_versions.LocalAnswers(ErrorCounts(Slots(context.shared.metrics[context.process])))
    worker.main(context, {api_versions.API.key: first.answer}, served, first.take)

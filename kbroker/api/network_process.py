"""Main of a network process: passes the versions of APIs to kbroker.net.

It imports no handlers of control, because they would stay in the memory of every network process.
"""

from kbroker.api.error_counts import ErrorCounts
from kbroker.api.version_answers import LocalAnswers
from kbroker.api.versions import VERSIONS, served
from kbroker.ipc.child import ChildContext
from kbroker.metrics.slots import Slots
from kbroker.net import worker


def main(context: ChildContext) -> None:
    """Entry of the role "network"."""
    counts = ErrorCounts(Slots(context.shared.metrics[context.process]))
    # as in Kafka, an API that is not advertised is still answered
    worker.main(context, LocalAnswers(counts, served(context.config)), VERSIONS)

"""The coordinators of this broker: which machines run, each over its internal topic."""

import asyncio
from collections.abc import Sequence

from kbroker.control.appender import Appender
from kbroker.control.broker import Broker
from kbroker.control.groups import shard
from kbroker.control.groups.service import GroupService
from kbroker.control.runtime import Runtime
from kbroker.control.transactions.service import TransactionService
from kbroker.control.transactions.shard import TOPIC as TRANSACTIONS


def make_coordinators(broker: Broker, appender: Appender) -> Sequence[Runtime]:
    """Make them and enter them into the broker; called once, from the running loop of control."""
    loop = asyncio.get_running_loop()
    groups = Runtime(broker, appender, shard.TOPIC, loop)
    group_service = GroupService(broker, groups)
    group_service.start()
    transactions = Runtime(broker, appender, TRANSACTIONS, loop)
    TransactionService(broker, transactions, appender, group_service).start()
    return groups, transactions

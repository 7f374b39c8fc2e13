"""The coordinators of this broker: which machines run, each over its internal topic."""

import asyncio
from collections.abc import Callable, Sequence

from kbroker.control.broker import Broker
from kbroker.control.coordinator.runtime import Runtime
from kbroker.control.groups import shard
from kbroker.control.groups.service import GroupService
from kbroker.control.links.appender import Appender
from kbroker.control.share import state_shard as share_state
from kbroker.control.share.service import ShareService
from kbroker.control.transactions.service import TransactionService
from kbroker.control.transactions.shard import TOPIC as TRANSACTIONS


def make_coordinators(
    broker: Broker, appender: Appender, announce: Callable[[int], None]
) -> Sequence[Runtime]:
    """Make them and enter them into the broker; called once, from the running loop of control.

    announce(slot number): sets control's waiter bit in a slot.
    """
    loop = asyncio.get_running_loop()
    groups = Runtime(broker, appender, shard.TOPIC, loop)
    group_service = GroupService(broker, groups, appender)
    group_service.start()
    transactions = Runtime(broker, appender, TRANSACTIONS, loop)
    TransactionService(broker, transactions, appender, group_service).start()
    shares = Runtime(broker, appender, share_state.TOPIC, loop)
    appender.slot_listeners.append(ShareService(broker, group_service, shares, announce).slot_advanced)
    return groups, transactions, shares

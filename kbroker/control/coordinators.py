"""The coordinators of this broker: which machines run, each over its internal topic."""

import asyncio
from collections.abc import Callable, Sequence

from kbroker.control.coordinator.runtime import Runtime
from kbroker.control.groups import shard
from kbroker.control.groups.service import GroupService
from kbroker.control.links.appender import Appender
from kbroker.control.services import Services
from kbroker.control.share import state_shard as share_state
from kbroker.control.share.service import ShareService
from kbroker.control.transactions.service import TransactionService
from kbroker.control.transactions.shard import TOPIC as TRANSACTIONS


def make_coordinators(
    services: Services, appender: Appender, announce: Callable[[int], None]
) -> Sequence[Runtime]:
    """Make them and enter them into the services; called once, from the running loop of control.

    announce(slot number): sets control's waiter bit in a slot.
    """
    broker, loop = services.broker, asyncio.get_running_loop()
    groups = Runtime(broker, appender, shard.TOPIC, loop)
    group_service = GroupService(broker, groups, appender)
    group_service.start()
    transactions = Runtime(broker, appender, TRANSACTIONS, loop)
    transaction_service = TransactionService(broker, transactions, appender, group_service)
    transaction_service.start()
    shares = Runtime(broker, appender, share_state.TOPIC, loop)
    share_service = ShareService(broker, group_service, shares, announce, appender.append)
    appender.slot_listeners.append(share_service.slot_advanced)
    services.coordinate(group_service, transaction_service, share_service)
    return groups, transactions, shares

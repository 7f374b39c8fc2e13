"""Roles of logs, sent to their IO workers: the leader of a partition leads, the others follow.

A role is sent when it has changed, and again until the worker has confirmed it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any

from kbroker.control.broker import Broker
from kbroker.control.links.links import CALLS_AT_ONCE, bounded
from kbroker.control.metadata.catalogue import Partition, Replica
from kbroker.control.replication.roles import role_of
from kbroker.ipc.link import LinkClosed
from kbroker.ipc.messages import Follow, Lead
from kbroker.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

ANSWER_S = 1.0  # then the role is sent again

LogKey = tuple[int, int]
"""Slot and generation of a log."""


class RoleCalls:
    """Runs in: control. Owner: Replication, which sends under its lock.

    confirmed: the last role that each log's IO worker has confirmed.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._confirmed: dict[LogKey, Lead | Follow] = {}
        self._unconfirmed: set[LogKey] = set()
        self._confirming: set[asyncio.Task[list[Any]]] = set()
        self._alone: dict[LogKey, Partition] = {}  # leaders that have not confirmed `lead_alone`

    def forget(self, replica: Replica) -> None:
        """The worker no longer has the role that it confirmed."""
        self._confirmed.pop((replica.slot, replica.generation), None)

    def suspect(self, partitions: Iterable[Partition]) -> None:
        """The leaders' roles may differ from those that the workers have confirmed."""
        self._unconfirmed.update((p.slot, p.generation) for p in partitions)

    def take_unconfirmed(self, partitions: Iterable[Partition]) -> list[Partition]:
        """The partitions whose role an IO worker has not confirmed; each is returned once."""
        if not self._unconfirmed:
            return []
        keys, self._unconfirmed = self._unconfirmed, set()
        return [p for p in partitions if any((r.slot, r.generation) in keys for r in p.replicas)]

    async def send(self, partitions: Iterable[Partition]) -> None:
        """Send the roles that have changed. Waits for leaders, but not for followers: one of them
        may be the reason for the change."""
        listed = list(partitions)
        await self.send_to_leaders(listed)
        self._begin([partial(self._send, p, r) for p in listed for r in p.replicas if r is not p.leader])

    def _begin(self, calls: Sequence[Callable[[], Awaitable[Any]]]) -> None:
        task = asyncio.get_running_loop().create_task(bounded(CALLS_AT_ONCE, calls))
        self._confirming.add(task)
        task.add_done_callback(self._confirming.discard)

    async def send_to_leaders(self, partitions: Iterable[Partition]) -> list[Any]:
        """Send their roles to the leaders; the reply to each, None without one."""
        return await bounded(CALLS_AT_ONCE, [partial(self._send, p, p.leader) for p in partitions])

    async def _send(self, partition: Partition, replica: Replica) -> Any:
        """The reply of the worker; None when there is nothing to send, or no worker."""
        self._broker.shared.in_sync[replica.slot] = replica.in_sync or replica.joining
        minimum = self._broker.topic_config(partition.topic).min_insync_replicas
        role, key = role_of(partition, replica, minimum), (replica.slot, replica.generation)
        if role is None or self._confirmed.get(key) == role or self._broker.dir_errors.of(replica.log_dir):
            return None
        self._confirmed.pop(key, None)  # without an answer in time the worker may have either
        answer = await self._call(replica, role)
        if isinstance(answer, KafkaError):
            self._unconfirmed.add(key)
            return answer
        self._confirmed[key] = role
        return answer

    async def replace(self, replica: Replica, role: Lead | Follow) -> Any:
        """Send a temporary role, which the next `send` replaces; the reply, or its KafkaError."""
        answer = await self._call(replica, role)
        self.forget(replica)
        return answer

    async def lead_alone(self, partition: Partition) -> None:
        """Send the leader of a partition whose other replicas are gone a role without followers, so
        that it does not wait for them. A log that is opened later needs no such role."""
        leader = partition.leader
        answer = await self.replace(leader, Lead(leader.slot, partition.leader_epoch, (), (), 1))
        if isinstance(answer, KafkaError) and answer.code is not ErrorCode.KAFKA_STORAGE_ERROR:
            self._alone[leader.slot, leader.generation] = partition

    def repeat_alone(self) -> None:
        """Repeat the calls of `lead_alone` that were not confirmed: the log may have been opened
        meanwhile in its previous role."""
        again, self._alone = self._alone, {}
        calls = [
            partial(self.lead_alone, partition)
            for (slot, generation), partition in again.items()
            if self._broker.catalogue.partition(partition.topic, partition.index) is partition
            and not partition.replicated
            and (partition.slot, partition.generation) == (slot, generation)
        ]
        if calls:
            self._begin(calls)

    async def _call(self, replica: Replica, body: Lead | Follow) -> Any:
        """The reply, or its KafkaError; a worker that is restarting gets the role afterwards."""
        link = self._broker.links.worker(replica.worker)
        if link is None:
            return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        try:
            return await asyncio.wait_for(link.call(body), ANSWER_S)
        except TimeoutError:
            return KafkaError(ErrorCode.REQUEST_TIMED_OUT)
        except KafkaError as error:
            opening = error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER  # on a disk that hangs, for long
            level = logging.DEBUG if opening else logging.WARNING
            log.log(level, "%s: %s was refused: %s", replica.folder, type(body).__name__, error)
            return error
        except LinkClosed:
            return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

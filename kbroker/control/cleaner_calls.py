"""Calls of the cleaner: to control itself, and to IO workers through control."""

from kbroker.control.broker import Broker
from kbroker.ipc.link import AsyncLink, LinkClosed
from kbroker.ipc.messages import AskWorker
from kbroker.protocol.errors import ErrorCode, KafkaError


async def pass_on(broker: Broker, link: AsyncLink, call_id: int, asked: AskWorker) -> None:
    """Call an IO worker for the cleaner and give it the reply. Control does not wait for a worker
    that is restarting: a log that is being recovered is not cleaned."""
    worker = broker.links.worker(asked.worker)
    if worker is None:
        link.reply(call_id, error=ErrorCode.NOT_LEADER_OR_FOLLOWER, message=f"io {asked.worker} is away")
        return
    try:
        link.reply(call_id, await worker.call(asked.body))
    except KafkaError as error:
        link.reply(call_id, error=int(error.code), message=str(error))
    except LinkClosed as error:
        link.reply(call_id, error=ErrorCode.NOT_LEADER_OR_FOLLOWER, message=str(error))

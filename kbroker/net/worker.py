"""Main of a network process: event loop, link to control, connections from the acceptor, clean
shutdown."""

import asyncio
import logging
import math
import time
from collections.abc import Callable

import uvloop

from kbroker.ipc.background import unless_stopped
from kbroker.ipc.child import STOP_SIGNAL, ChildContext, take_stop
from kbroker.ipc.layout import ProcessLine
from kbroker.ipc.link import AsyncLink
from kbroker.ipc.messages import Hello
from kbroker.ipc.scheduling import let_threads_give_way
from kbroker.net.api_versions import VersionAnswers
from kbroker.net.dispatch import Dispatch, Versions
from kbroker.net.fetch import residency
from kbroker.net.fetch.fetches import Fetches
from kbroker.net.forward.control_link import ControlLink
from kbroker.net.images import Images
from kbroker.net.process import NetworkProcess
from kbroker.net.upkeep import Upkeep
from kbroker.net.upkeep_failures import UpkeepFailures

log = logging.getLogger(__name__)

TICK_SECONDS = 1.0
GIVE_BACK_SECONDS = 0.02  # between two released chunks of memory
OLD_ENTRIES_SECONDS = 0.001
LATE_SECONDS = 10.0  # until a line says why the process does not start
DRAIN_SECONDS = 5.0
DRAIN_POLL_SECONDS = 0.005
RELEASE = -1  # the part of the upkeep that releases memory


def main(context: ChildContext, version_answers: VersionAnswers | None, served: Versions) -> None:
    """Serve until the parent asks for a stop. Runs in: network.

    version_answers: answers ApiVersions; None leaves that to control. served: the versions answered
    of every API; control gets all but ApiVersions, Produce and Fetch.
    """
    let_threads_give_way()
    uvloop.run(_serve(context, version_answers, served))


async def _serve(context: ChildContext, version_answers: VersionAnswers | None, served: Versions) -> None:
    assert context.handoff is not None
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    loop.add_signal_handler(STOP_SIGNAL, stop.set)
    take_stop()
    process = NetworkProcess(context.shared, context.process, context.config, context.handoff)
    upkeep = Upkeep(process)
    if not await unless_stopped(stop, _old_entries_taken(upkeep.old_entries)):
        return
    probe = residency.choose(context.config.log_dirs)
    fetches = Fetches(process, context.config, probe)
    forwarding = process.forwarding
    forwarding.serves(served)

    def on_link(link: AsyncLink | None) -> None:
        process.counts.clients.linked(link is not None)
        forwarding.link_changed(link)

    images = Images(process, fetches, context.handoff if context.index == 0 else None, version_answers)
    hello = Hello("network", context.index, context.epoch)
    control = ControlLink(
        context.control_sockets.connector, hello, images.apply, forwarding.take_answers, on_link
    )
    control.on_long_answer = forwarding.take_long_answer
    forwarding.request_turn = process.request_turn
    process.transactions.ask = control.verify
    process.access.audit.send = control.send
    process.counts.clients.send = control.send
    control.list_clients = lambda: process.counts.clients.connected(process.connections.values())
    dispatch = process.server = Dispatch(process, control, fetches, version_answers, served)
    images.logins, images.known_versions = dispatch.logins, dispatch.known_versions
    if not await unless_stopped(stop, _linked(control)):
        return  # no client was served yet
    process.start(loop)
    context.shared.processes[context.process, ProcessLine.READY] = context.epoch
    ticking = loop.create_task(_tick(upkeep, fetches))
    await stop.wait()
    ticking.cancel()
    await _drain(upkeep, fetches)
    await process.tls.drain()
    process.senders.stop()
    process.checks.close()
    control.close()


async def _old_entries_taken(are_left: Callable[[], bool]) -> None:
    """Wait until the IO workers have taken the appends of a dead predecessor, which they read from
    the arena. One that waits for its disk may need long."""
    late_s = time.monotonic() + LATE_SECONDS
    while are_left():
        if time.monotonic() >= late_s:
            log.warning("an IO worker hangs: it has not taken what the last network process appended")
            late_s = math.inf
        await asyncio.sleep(OLD_ENTRIES_SECONDS)


async def _linked(control: ControlLink) -> None:
    """Open the link to control, and wait for the first image."""
    await control.connect()
    await control.first_image.wait()


async def _tick(upkeep: Upkeep, fetches: Fetches) -> None:
    loop = asyncio.get_running_loop()
    due = loop.time()
    failures = UpkeepFailures(loop.time)
    while True:
        due = max(due, loop.time() - TICK_SECONDS) + TICK_SECONDS
        await asyncio.sleep(due - loop.time())
        for part, step in enumerate((*upkeep.steps(max(0.0, loop.time() - due)), fetches.measure)):
            failures.run(part, step)
            await asyncio.sleep(0)
        while (
            failures.run(RELEASE, upkeep.release_memory)
            and loop.time() < due + TICK_SECONDS - GIVE_BACK_SECONDS
        ):
            await asyncio.sleep(GIVE_BACK_SECONDS)


async def _drain(upkeep: Upkeep, fetches: Fetches) -> None:
    """Answer what was received, then close every connection."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + DRAIN_SECONDS
    upkeep.stop_reading()
    fetches.finish_all()
    while upkeep.unanswered() and loop.time() < deadline:
        await asyncio.sleep(DRAIN_POLL_SECONDS)
    upkeep.close_all()

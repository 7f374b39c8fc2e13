"""Many groups for a long time, on kbroker and on Apache Kafka side by side:
`python -m bench.soak_groups --minutes 10`.

GROUPS groups of MEMBERS members, a connection each: every member sends a heartbeat every three
seconds, one of each group commits once a second; beside them a group of LARGE members rebalances
every few seconds. Every answer is checked: any error for a member that is alive fails the run.
"""

import argparse
import asyncio
import random
import resource
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from bench.generator import CACHE, LoadFailed
from bench.measure import cpu_seconds, pss_bytes
from bench.members import Member, gather_group, rebalance
from bench.run import make_generator, make_targets, running, work_folder
from bench.targets import KafkaOptions, Target
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

GROUPS, MEMBERS, LARGE = 1000, 5, 500
HEARTBEAT_S, COMMIT_S, REBALANCE_S = 3.0, 1.0, 15.0
SESSION_MS = 45_000
AT_ONCE = 100  # groups that are being made at a time
TOPIC = "soak"


@dataclass
class Soak:
    """One broker's run. Times in seconds, one for each answer."""

    port: int
    end_s: float = 0.0
    heartbeats: list[float] = field(default_factory=list)
    commits: list[float] = field(default_factory=list)
    rebalances: list[float] = field(default_factory=list)

    async def run(self, seconds: float, groups: int, large: int) -> None:
        """Make the groups, then let them live. Raises LoadFailed."""
        gate = asyncio.Semaphore(AT_ONCE)

        async def make(number: int) -> list[Member]:
            async with gate:
                return await gather_group(self.port, f"soak-{number}", MEMBERS, SESSION_MS)

        made = [asyncio.create_task(make(number)) for number in range(groups)]
        lives: list[asyncio.Task[None]] = []
        for one in asyncio.as_completed(made):  # the first ones must not wait for the last ones
            lives += [asyncio.create_task(self._live(each, at == 0)) for at, each in enumerate(await one)]
        crowd = await gather_group(self.port, "soak-crowd", large, SESSION_MS)
        self.heartbeats.clear()
        self.commits.clear()
        self.end_s = time.monotonic() + seconds
        await asyncio.gather(*lives, self._rebalance(crowd))

    def _lasts(self) -> bool:
        return not self.end_s or time.monotonic() < self.end_s

    async def _live(self, member: Member, commits: bool) -> None:
        step = COMMIT_S if commits else HEARTBEAT_S
        await asyncio.sleep(random.uniform(0, step))
        turn = 0
        while self._lasts():
            turn += 1
            begin = time.monotonic()
            if commits:
                await self._commit(member, turn)
            if not commits or turn % round(HEARTBEAT_S / COMMIT_S) == 0:
                await self._heartbeat(member)
            await asyncio.sleep(max(0.0, step - (time.monotonic() - begin)))
        await member.close()

    async def _heartbeat(self, member: Member) -> None:
        begin = time.monotonic()
        answer = await member.ask(ApiKey.HEARTBEAT, member.heartbeat_request())
        self.heartbeats.append(time.monotonic() - begin)
        if answer.error_code:
            raise LoadFailed(f"{member.group_id}: Heartbeat failed with {answer.error_code}")

    async def _commit(self, member: Member, offset: int) -> None:
        parts = [OffsetCommitRequestPartition(0, offset)]
        topics = [OffsetCommitRequestTopic(TOPIC, partitions=parts)]
        request = OffsetCommitRequest(member.group_id, member.generation, member.member_id, topics=topics)
        begin = time.monotonic()
        answer = await member.ask(ApiKey.OFFSET_COMMIT, request)
        self.commits.append(time.monotonic() - begin)
        code = answer.topics[0].partitions[0].error_code
        if code != ErrorCode.NONE:
            raise LoadFailed(f"{member.group_id}: OffsetCommit failed with {code}")

    async def _rebalance(self, crowd: list[Member]) -> None:
        while self._lasts():
            begin = time.monotonic()
            await rebalance(crowd)
            self.rebalances.append(time.monotonic() - begin)
            while self._lasts() and time.monotonic() - begin < REBALANCE_S:
                await asyncio.sleep(HEARTBEAT_S)
                await asyncio.gather(*(self._heartbeat(member) for member in crowd))
        for member in crowd:
            await member.close()


def soak(name: str, port: int, pid: int, seconds: float, groups: int, large: int) -> str:
    """Runs in a process of its own; returns its result as a line."""
    run = Soak(port)
    before = cpu_seconds(pid)
    begin = time.monotonic()
    asyncio.run(run.run(seconds, groups, large))
    took = time.monotonic() - begin
    cpu = cpu_seconds(pid) - before
    return (
        f"{name:<8} {len(run.heartbeats) / seconds:,.0f} heartbeats/s (p50 {quantile(run.heartbeats, 0.5):.1f} ms, "
        f"p99 {quantile(run.heartbeats, 0.99):.1f} ms), {len(run.commits) / seconds:,.0f} commits/s "
        f"(p50 {quantile(run.commits, 0.5):.1f} ms, p99 {quantile(run.commits, 0.99):.1f} ms), "
        f"{len(run.rebalances)} rebalances of {large} (median {quantile(run.rebalances, 0.5):.0f} ms, "
        f"longest {quantile(run.rebalances, 1):.0f} ms), CPU {cpu / took * 100:.0f} % of a core, "
        f"{pss_bytes(pid) / 1e6:.0f} MB"
    )


def quantile(times: Sequence[float], share: float) -> float:
    """The quantile `share` (0..1) of times in seconds, in ms."""
    ordered = sorted(times)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] * 1e3 if ordered else 0.0


def make_topic(target: Target) -> None:
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{target.port}", "log_level": 3})
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(60)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.soak_groups", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--groups", type=int, default=GROUPS, help=f"of {MEMBERS} members each ({GROUPS})")
    parser.add_argument(
        "--large", type=int, default=LARGE, help=f"members of the group that rebalances ({LARGE})"
    )
    parser.add_argument("--target", choices=("kafka", "kbroker", "both"), default="both")
    parser.add_argument("--heap", default="1g", help="heap of Apache Kafka (1g)")
    parser.add_argument("--folder", type=Path, default=CACHE / "soak")
    options = parser.parse_args(arguments)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    names = ["kbroker", "kafka"] if options.target == "both" else [options.target]
    print(
        f"{options.groups} groups of {MEMBERS} and one of {options.large}, {options.minutes:g} minutes",
        flush=True,
    )
    with ExitStack() as stack:
        folder = stack.enter_context(work_folder(options.folder.resolve()))
        kafka = KafkaOptions(options.heap)
        targets = make_targets(names, folder, make_generator(), kafka, congestion="")
        for target in targets:
            stack.enter_context(running(target))
            make_topic(target)
        pool = stack.enter_context(ProcessPoolExecutor(len(targets)))
        runs = [
            pool.submit(
                soak, one.name, one.port, one.pid, options.minutes * 60, options.groups, options.large
            )
            for one in targets
        ]
        failed = False
        for target, run in zip(targets, runs, strict=True):
            try:
                print(run.result(), flush=True)
            except LoadFailed as failure:
                print(f"{target.name:<8} FAILED: {failure}", file=sys.stderr, flush=True)
                failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

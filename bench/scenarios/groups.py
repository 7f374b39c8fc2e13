"""Daily work of a group coordinator: heartbeats and commits of many members, and a rebalance of a
large group.
"""

import asyncio
import time
from collections.abc import Callable, Sequence

from bench import limits
from bench.members import CORRELATION_ID, VERSIONS, Member, gather_group, rebalance, request_frame
from bench.scenario import Measure, Scenario, client_cpu, cpu_per_message, latency, rate
from bench.turn import Measures, Turn
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.frame import encode_response
from kbroker.protocol.messages.heartbeat import HeartbeatResponse
from kbroker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kbroker.protocol.schema import Struct

GROUPS = 10
MEMBERS = 20  # of each
SESSION_MS = 300_000  # longer than the scenario: members that only commit send no heartbeats
LARGE = 500
REBALANCES = 5


async def _members(turn: Turn, count: int) -> list[Member]:
    names = [f"bench-{turn.number}-{number}" for number in range(count)]
    groups = await asyncio.gather(
        *(gather_group(turn.target.port, name, MEMBERS, SESSION_MS) for name in names)
    )
    return [member for group in groups for member in group]


def _repeat(turn: Turn, api: ApiKey, requests: Sequence[Struct], answer: Struct) -> Measures:
    """Each connection sends its request again and again; every answer is held against the expected
    one."""
    sent, expected = turn.target.folder / "requests.bin", turn.target.folder / "answer.bin"
    sent.write_bytes(b"".join(request_frame(api, request) for request in requests))
    expected.write_bytes(encode_response(api, VERSIONS[api], CORRELATION_ID, answer))
    load = turn.load("repeat", requests=sent, answer=expected, connections=len(requests), **turn.timed())
    return {**load.rate("requests"), **load.latency("answer")}


def heartbeats(turn: Turn) -> Measures:
    async def requests() -> list[Struct]:
        members = await _members(turn, GROUPS)
        found: list[Struct] = [member.heartbeat_request() for member in members]
        for member in members:
            await member.close()
        return found

    return _repeat(turn, ApiKey.HEARTBEAT, asyncio.run(requests()), HeartbeatResponse())


def commits(turn: Turn) -> Measures:
    return commits_of(turn, GROUPS)


def commits_of(turn: Turn, count: int) -> Measures:
    """Every member of so many groups commits, again and again."""
    topic = turn.topic("committed", MEMBERS)

    async def requests() -> list[Struct]:
        members = await _members(turn, count)
        found: list[Struct] = [
            OffsetCommitRequest(
                member.group_id,
                member.generation,
                member.member_id,
                topics=[OffsetCommitRequestTopic(topic, partitions=[OffsetCommitRequestPartition(3, 1000)])],
            )
            for member in members
        ]
        for member in members:
            await member.close()
        return found

    parts = [OffsetCommitResponsePartition(3)]
    answer = OffsetCommitResponse(topics=[OffsetCommitResponseTopic(topic, partitions=parts)])
    return _repeat(turn, ApiKey.OFFSET_COMMIT, asyncio.run(requests()), answer)


def rebalances(turn: Turn) -> Measures:
    """Every member joins again, from a stable group to the next: the time until the last one has
    its assignment."""

    async def run() -> list[float]:
        members = await gather_group(turn.target.port, f"large-{turn.number}", LARGE)
        took = []
        for _ in range(REBALANCES):
            begin = time.monotonic()
            await rebalance(members)
            took.append(time.monotonic() - begin)
        for member in members:
            await member.close()
        return took

    took = sorted(asyncio.run(run()))
    return {"rebalance_ms": took[len(took) // 2] * 1e3, "longest_ms": took[-1] * 1e3}


def _closed_loop(name: str, title: str, unit: str, run: Callable[[Turn], Measures]) -> Scenario:
    measures = (
        rate(1.0, f"{unit}s/s"),
        cpu_per_message(what=unit),
        latency("p99", what="answer"),
        client_cpu(),
    )
    return Scenario(name, title, measures, run, kind="groups", limit=limits.echo())


SCENARIOS = (
    _closed_loop("groups_heartbeat", f"heartbeats of {GROUPS * MEMBERS} members", "heartbeat", heartbeats),
    _closed_loop("groups_commit", f"commits of {GROUPS * MEMBERS} members", "commit", commits),
    Scenario(
        "groups_rebalance",
        f"rebalance of a group of {LARGE}",
        (
            Measure("rebalance_ms", "rebalance, median", "ms", "lower", 1.0),
            Measure("longest_ms", "rebalance, longest", "ms", "lower"),
        ),
        rebalances,
        kind="groups",
    ),
)

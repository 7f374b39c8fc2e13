"""Members that make a group: those that are ready keep their sessions while others come late."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import members as bench_members
from bench.generator import LoadFailed
from bench.members import Member, gather_group, rebalance, settle
from kbroker.protocol.errors import ErrorCode
from tests.peer.kbroker_node import KBroker

COUNT = 20


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A broker that ends each first join phase at once: those that come later rebalance again."""
    folder: Path = tmp_path_factory.mktemp("kbroker")
    node = KBroker(folder, {"group.initial.rebalance.delay.ms": "0"})
    node.start()
    yield int(node.bootstrap.rpartition(":")[2])
    node.stop()


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_members, "HEARTBEAT_S", 0.05)


async def is_stable(members: list[Member]) -> bool:
    codes = [await member._heartbeat() for member in members]
    leaders = [member for member in members if member.members]
    return (
        set(codes) == {ErrorCode.NONE}
        and len({member.generation for member in members}) == 1
        and len(leaders) == 1
        and set(leaders[0].members) == {member.member_id for member in members}
    )


async def close(members: list[Member]) -> None:
    for member in members:
        await member.close()


def test_a_group_is_stable_when_it_is_gathered(port: int) -> None:
    async def run() -> None:
        members = await gather_group(port, "gathered", COUNT)
        assert await is_stable(members)
        await close(members)

    asyncio.run(run())


def test_every_rebalance_ends_with_all_members_in_the_next_generation(port: int) -> None:
    async def run() -> None:
        members = await gather_group(port, "rebalanced", COUNT)
        for _ in range(5):
            before = members[0].generation
            await rebalance(members)
            assert members[0].generation == before + 1
            assert await is_stable(members)
        await close(members)

    asyncio.run(run())


class Late(Member):
    """A member that joins when the others have sent heartbeats for a while."""

    ready: asyncio.Event

    async def join(self) -> None:
        await self.ready.wait()
        await super().join()


class Early(Member):
    """Counts its heartbeats."""

    beats = 0
    late: Late

    async def heartbeat(self) -> None:
        await super().heartbeat()
        self.beats += 1
        if self.beats >= 3:
            self.late.ready.set()


def test_members_that_are_ready_keep_their_sessions_until_the_last_one_joins(port: int) -> None:
    async def run() -> None:
        late = Late(port, "late")
        late.ready = asyncio.Event()
        early = Early(port, "late")
        early.late = late
        members: list[Member] = [early, late]
        for member in members:
            await member.connect()
        await early.find_coordinator()
        await settle(members)
        assert early.beats >= 3
        assert await is_stable(members)
        await close(members)

    asyncio.run(run())


def test_an_error_ends_the_gathering(port: int) -> None:
    async def run() -> None:
        members = await gather_group(port, "failed", 3)
        members[1].member_id = "nobody"
        with pytest.raises(LoadFailed, match="JoinGroup failed with 25"):
            await rebalance(members)
        await close(members)

    asyncio.run(run())

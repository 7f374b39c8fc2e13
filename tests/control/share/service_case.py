"""A share service whose partitions are loaded, and what it asks of them."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.control.groups.settings import GroupOverrides
from kbroker.control.share.acquiring import Spec
from kbroker.control.share.service import FetchSpec, ShareService
from kbroker.control.share.share_partition import Acquired
from kbroker.control.share.state_shard import ShareKey
from kbroker.protocol.errors import KafkaError
from tests.control.fakes import World, world

TOPIC, HIDDEN = b"t" * 16, b"h" * 16
NEW = 9
"""A partition that the group has never fetched from."""


class Case:
    """A service whose partitions are loaded. found: by place, what a member gets of it. taken: what
    was asked for: place, bytes, records. releases: whether members that leave hold records. events:
    of partitions, in order."""

    def __init__(self, made: World, monkeypatch: pytest.MonkeyPatch) -> None:
        runtime: Any = SimpleNamespace(attach=lambda _: None, every=lambda *_: None)
        groups: Any = SimpleNamespace(
            shard=SimpleNamespace(table=SimpleNamespace(overrides=GroupOverrides()))
        )
        append: Any = None
        self.broker = made.broker
        self.announced: list[int] = []
        self.service = ShareService(made.broker, groups, runtime, self.announced.append, append)
        self.releases = False
        self.error: KafkaError | None = None
        self.events: list[tuple[str, int, str]] = []
        self.found: dict[tuple[bytes, int], tuple[bytes, list[Acquired]]] = {}
        self.taken: list[tuple[tuple[bytes, int], int, int]] = []
        monkeypatch.setattr(self.service._deliveries, "take", self._take)
        self.partitions = self.service.partitions
        monkeypatch.setattr(self.partitions, "get", self._get)
        monkeypatch.setattr(self.partitions, "log_of", lambda _: None)
        monkeypatch.setattr(self.partitions, "was_fetched", lambda key: key.partition != NEW)
        monkeypatch.setattr(self.partitions, "open", self._open)
        monkeypatch.setattr(self.partitions, "settle", self._settle)
        monkeypatch.setattr(self.partitions, "settle_later", self._settle_later)

    def _get(self, key: ShareKey) -> Any:
        def release(member_id: str, *_: object) -> bool:
            self.events.append(("release", key.partition, member_id))
            return self.releases

        def acknowledge(member_id: str, *_: object) -> None:
            self.events.append(("acknowledge", key.partition, member_id))

        return SimpleNamespace(release=release, acknowledge=acknowledge)

    async def _open(self, key: ShareKey) -> Any:
        if self.error is not None:
            raise self.error
        return self._get(key)

    async def _settle(self, key: ShareKey, _: object) -> None:
        self.events.append(("settle", key.partition, ""))

    async def _settle_later(self, key: ShareKey, partition: object) -> None:
        await self._settle(key, partition)
        self.service._wake_ups.notify(key)

    async def waiting(self, place: tuple[bytes, int]) -> "asyncio.Task[dict[Any, Any]]":
        """A fetch that has found nothing, and waits."""
        fetch = asyncio.ensure_future(self.fetch(0, place, max_wait_ms=3_600_000))
        while not self.taken:
            await asyncio.sleep(0)
        for _ in range(5):
            await asyncio.sleep(0)
        assert not fetch.done()
        self.found = {place: (b"records", [Acquired(0, 0, 1)])}
        return fetch

    async def _take(self, key: ShareKey, _: object, max_bytes: int, spec: Spec) -> Any:
        place = key.topic_id, key.partition
        self.taken.append((place, max_bytes, spec.max_records))
        return self.found.get(place, (b"", []))

    async def fetch(self, epoch: int, *added: tuple[bytes, int], **how: Any) -> dict[Any, Any]:
        spec = FetchSpec(
            *("g", how.pop("member", "m"), epoch, how.pop("max_wait_ms", 0), 1, 1000, Spec(10)),
            *(added, (), how.pop("acknowledgements", {})),
            **how,
        )
        return await self.service.fetch(spec)


Body = Callable[[Case], Awaitable[None]]


@contextmanager
def cases(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Body], None]]:
    """Runs a test with a case."""
    with world(folder) as made:

        def run(body: Body) -> None:
            async def all_of_it() -> None:
                await body(Case(made, monkeypatch))

            asyncio.run(all_of_it())

        yield run

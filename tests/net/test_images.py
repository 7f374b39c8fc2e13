"""Images of control's state are applied in slices, one after the other."""

import asyncio
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kbroker.config.client_quotas import CLIENT_ID, PRODUCER_BYTE_RATE, QuotaTable, entity_of
from kbroker.ipc.messages import AclDelta, Image
from kbroker.ipc.shared import Shared, Sizes
from kbroker.net.connections.connection import State
from kbroker.net.images import Images
from kbroker.net.rows import Connection as ConnectionRow
from kbroker.net.rows import Context, Flag
from kbroker.net.usage.quotas import Quotas
from kbroker.protocol import slices
from kbroker.protocol.slices import paced


class Scene:
    """A network process whose ACLs take as many steps as the images have ACLs. log: the steps and
    the confirmed images."""

    def __init__(self) -> None:
        self.log: list[object] = []
        process: Any = SimpleNamespace(
            topics=SimpleNamespace(apply=self._topics),
            access=SimpleNamespace(change=self._change),
            tls=SimpleNamespace(change=lambda _: None),
        )
        self.gone: list[list[int]] = []
        fetches: Any = SimpleNamespace(on_gone=self.gone.append)
        self.images = Images(process, fetches, None, None)
        self.images.logins = SimpleNamespace(change=lambda _: None)  # type: ignore[assignment]

    def _topics(self, *parts: object) -> list[int]:
        self.log.append(("topics", parts[3]))
        return [7]

    def _change(self, delta: AclDelta | None, full: bool) -> None:
        del full
        for acl in paced(delta.added if delta is not None else ()):
            if acl is None:
                raise ValueError("a bug")
            self.log.append(acl)

    def apply(self, version: int, *added: Any) -> None:
        delta = AclDelta(added) if added else None
        image = Image(version, False, (), (), {}, None, {}, 0, delta)
        self.images.apply(image, self._applied(version))

    def _applied(self, version: int) -> Callable[[], None]:
        return lambda: self.log.append(("applied", version))


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setattr(slices, "SLICE_NS", 0)
    return Scene()


def test_a_short_image_is_applied_at_once(scene: Scene) -> None:
    scene.apply(1)
    scene.apply(2, "a")
    assert scene.log == [("topics", 1), ("applied", 1), ("topics", 2), "a", ("applied", 2)]


def test_other_work_runs_between_the_slices_of_a_long_image(scene: Scene) -> None:
    steps = list(range(100))

    async def main() -> int:
        scene.apply(1, *steps)
        turns = 0
        while ("applied", 1) not in scene.log:
            turns += 1
            await asyncio.sleep(0)
        return turns

    assert asyncio.run(main()) >= len(steps) // slices.CHECK_EVERY
    assert scene.log == [("topics", 1), *steps, ("applied", 1)]


def test_later_images_wait_for_a_long_one_and_keep_their_order(scene: Scene) -> None:
    async def main() -> None:
        scene.apply(1, *range(50))
        scene.apply(2)
        scene.apply(3, *range(50))
        scene.apply(4)
        assert ("topics", 2) not in scene.log
        while ("applied", 4) not in scene.log:
            await asyncio.sleep(0)

    asyncio.run(main())
    assert [each for each in scene.log if isinstance(each, tuple)] == [
        (what, version) for version in range(1, 5) for what in ("topics", "applied")
    ]


def test_an_image_that_fails_is_not_confirmed_and_the_next_one_is_applied(scene: Scene) -> None:
    async def main() -> None:
        scene.apply(1, *range(20), None)
        scene.apply(2)
        while ("applied", 2) not in scene.log:
            await asyncio.sleep(0)

    asyncio.run(main())
    assert ("applied", 1) not in scene.log


def test_fetches_learn_of_slots_that_are_gone(scene: Scene) -> None:
    """A fetch that waits for one would wait until its time is up."""
    scene.apply(1)
    assert scene.gone == [[7]]


def test_quotas_beside_very_many_connections_are_applied_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, a change took 2 us for each connection, in one piece."""
    monkeypatch.setattr(slices, "SLICE_NS", 0)
    tables: Any = SimpleNamespace(
        shared=Shared(Sizes(1, 1, 1, 8, 4096, quota_samples=4)),
        client=0,
        connections=ConnectionRow.table(2),
        words=Context.row(),
    )
    config: Any = SimpleNamespace(get_int=lambda _: 1)
    connection: Any = SimpleNamespace(row=1, state=State.READY, login=None)
    table = QuotaTable({entity_of([(CLIENT_ID, "c")]): {PRODUCER_BYTE_RATE: 1.0}})
    quotas = Quotas(tables, config, lambda _: None)
    work = slices.Work(partial(quotas.change, table, [connection] * 100, True))
    while not work.done:
        work.run_slice()
    assert work.slices >= 100 // slices.CHECK_EVERY
    assert tables.connections[1, ConnectionRow.FLAGS] & Flag.QUOTA


def test_the_parts_of_an_image_reach_their_owners() -> None:
    calls: list[tuple[object, ...]] = []

    def note(name: str, answer: object = None) -> Callable[..., object]:
        return lambda *arguments: (calls.append((name, *arguments)), answer)[1]

    process: Any = SimpleNamespace(
        topics=SimpleNamespace(apply=note("topics", [3])),
        access=SimpleNamespace(change=note("access")),
        tls=SimpleNamespace(change=note("tls")),
        quotas=SimpleNamespace(change=note("quotas")),
        connections={4: "link"},
    )
    fetches: Any = SimpleNamespace(on_gone=note("gone"))
    answers: Any = SimpleNamespace(take=note("versions"))
    images = Images(process, fetches, None, answers)
    parts: Any = images
    parts.logins = SimpleNamespace(change=note("logins"))
    parts.known_versions = SimpleNamespace(forget=note("forget"))
    parts._ip_rates = SimpleNamespace(change=note("rates"))
    parts._acceptor_settings = SimpleNamespace(change=note("acceptor"))
    settings, quotas, acls = {"a": "b"}, cast(Any, "quotas"), AclDelta(("acl",))
    image = Image(9, True, cast(Any, ("new",)), cast(Any, ("old",)), settings, quotas, {}, 0, acls)
    images.apply(image, note("applied"))
    assert calls == [
        ("topics", ("new",), ("old",), True, 9),
        ("gone", [3]),
        ("access", acls, True),
        ("logins", settings),
        ("tls", settings),
        ("acceptor", settings),
        ("quotas", quotas, ["link"], True),
        ("rates", quotas, True),
        ("versions", image),
        ("forget",),
        ("applied",),
    ]

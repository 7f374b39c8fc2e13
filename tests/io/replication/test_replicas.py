"""A slot is led or followed, never both; and what a turn of the worker does for its replicas."""

import errno
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.config.broker import BrokerConfig
from kbroker.io.replication.replicas import CHECK_INTERVAL_MS, SOON_MS, Replicas
from kbroker.ipc.messages import Follow, Lead
from kbroker.ipc.shared import Shared, Sizes
from kbroker.protocol.errors import ErrorCode, KafkaError

LEAD = Lead(3, 1, (), (), 1)
FOLLOW = Follow(3, 1, 4, 7, 0, "/there")


class Side:
    """Leading or following, as far as its worker asks it; notes the calls of both."""

    def __init__(self, name: str, calls: list[str]) -> None:
        self._name, self._calls = name, calls
        self.slots: set[int] = set()
        self.answers: dict[str, bool] = {}
        self.waiting = False
        self.error: OSError | KafkaError | None = None
        self.not_lowered: OSError | None = None

    def __len__(self) -> int:
        return len(self.slots)

    def forget(self, slot: int) -> None:
        self.slots.discard(slot)
        self._calls.append(f"{self._name} forgets")

    def lower_checkpoints(self, slot: int) -> None:
        if self.not_lowered is not None:
            raise self.not_lowered

    def take(self, role: Lead | Follow) -> str:
        self._calls.append(f"{self._name} takes")
        if self.error is not None:
            raise self.error
        self.slots.add(role.slot)
        return f"{self._name}'s answer"

    lead = follow = take

    def __getattr__(self, name: str) -> Callable[[], bool]:
        def step() -> bool:
            self._calls.append(name)
            return self.answers.get(name, False)

        return step


class Scene:
    def __init__(self) -> None:
        self.calls: list[str] = []
        self.failed: list[tuple[int, OSError]] = []
        shared = Shared(Sizes(clients=1, workers=1, max_partitions=4, ring_entries=8, arena_bytes=4096))
        context: Any = SimpleNamespace(shared=shared, index=0, config=BrokerConfig({"log.dirs": "/d"}))
        drain: Any = SimpleNamespace(wake=lambda: self.calls.append("wake"))
        logs: Any = SimpleNamespace(
            failures=SimpleNamespace(log_failed=lambda *each: self.failed.append(each)),
            require=lambda slot: f"log {slot}",
        )
        self.configured: list[str] = []
        durability: Any = SimpleNamespace(advanced=lambda slot: None, configured=self.configured.append)
        drain.env = drain.producers = drain.rows = None
        self.replicas = Replicas(context, drain, logs, durability)
        self.leading: Any = Side("leading", self.calls)
        self.following: Any = Side("following", self.calls)
        vars(self.replicas).update(leading=self.leading, following=self.following)

    def turn(self, now_ms: int) -> list[str]:
        self.calls.clear()
        self.replicas.turn(now_ms)
        return [call for call in self.calls if call != "advance"]


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_new_leader_stops_to_follow_first_and_a_new_follower_to_lead(scene: Scene) -> None:
    assert scene.replicas.take_role(LEAD) == "leading's answer"
    assert scene.calls == ["following forgets", "leading takes"]
    scene.calls.clear()
    assert scene.replicas.take_role(FOLLOW) is None
    assert scene.calls == ["leading forgets", "following takes"]
    assert scene.configured == [f"log {LEAD.slot}"]  # which syncs it, if acks wait for the disk
    assert set(scene.replicas.handlers) == {Lead, Follow}


def test_a_log_does_not_lead_before_its_lower_recovery_point_is_written(scene: Scene) -> None:
    """On a full disk control calls again; the log stays a follower until then."""
    scene.replicas.take_role(FOLLOW)
    scene.calls.clear()
    scene.following.not_lowered = OSError(errno.ENOSPC, "full")
    with pytest.raises(OSError, match="full"):
        scene.replicas.take_role(LEAD)
    assert scene.calls == []
    scene.following.not_lowered = None
    assert scene.replicas.take_role(LEAD) == "leading's answer"


@pytest.mark.parametrize("role", [LEAD, FOLLOW])
def test_a_worker_has_replicas_from_its_first_role_to_the_last_close(
    scene: Scene, role: Lead | Follow
) -> None:
    assert not scene.replicas.active
    scene.replicas.take_role(role)
    assert scene.replicas.active
    scene.replicas.forget(9)
    assert scene.replicas.active
    scene.replicas.forget(role.slot)
    assert not scene.replicas.active
    assert (scene.leading.slots, scene.following.slots) == (set(), set())


def test_a_role_that_the_disk_refuses_is_control_s_to_know(scene: Scene) -> None:
    assert scene.replicas.begin(None) == (0, "")
    assert scene.replicas.begin(LEAD) == (0, "")
    scene.following.error = OSError(errno.EIO, "broken")
    code, text = scene.replicas.begin(FOLLOW)
    assert code == ErrorCode.KAFKA_STORAGE_ERROR
    assert "broken" in text
    assert scene.failed == [(FOLLOW.slot, scene.following.error)]
    assert not scene.replicas.active


@pytest.mark.parametrize(("number", "offline"), [(errno.EIO, True), (errno.ENOSPC, False)])
def test_a_disk_that_cannot_store_a_new_role_is_offline_unless_it_is_full(
    scene: Scene, number: int, offline: bool
) -> None:
    """Else control repeats the role for good, and does not choose another leader."""
    scene.leading.error = OSError(number, "broken")
    with pytest.raises(OSError, match="broken"):
        scene.replicas.handlers[Lead](LEAD)
    assert scene.failed == ([(LEAD.slot, scene.leading.error)] if offline else [])
    scene.leading.error = None
    assert scene.replicas.handlers[Lead](LEAD) == "leading's answer"


def test_a_log_that_goes_offline_as_it_begins_to_lead_does_not_end_the_worker(scene: Scene) -> None:
    scene.leading.error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
    assert scene.replicas.begin(LEAD)[0] == ErrorCode.KAFKA_STORAGE_ERROR
    assert scene.failed == []


def test_idle_replicas_are_checked_twice_a_second_and_soon_while_a_leader_is_awaited(scene: Scene) -> None:
    assert scene.turn(10_000) == ["check", "pull"]
    assert scene.turn(10_000 + CHECK_INTERVAL_MS - 1) == ["pull"]
    assert scene.replicas.next_due_ms(10_100) == 10_000 + CHECK_INTERVAL_MS
    assert scene.turn(10_000 + CHECK_INTERVAL_MS) == ["check", "pull"]
    scene.following.waiting = True
    assert scene.replicas.next_due_ms(10_600) == 10_600 + SOON_MS
    assert scene.turn(10_000 + 2 * CHECK_INTERVAL_MS) == ["check", "pull"]
    assert scene.turn(10_000 + 2 * CHECK_INTERVAL_MS + SOON_MS) == ["check", "pull"]
    assert scene.replicas.next_due_ms(11_100) == 11_000 + 2 * SOON_MS


def test_waiters_for_a_high_watermark_are_woken_when_it_moves(scene: Scene) -> None:
    scene.turn(0)
    assert not scene.replicas.turn(1)
    scene.following.answers["pull"] = True
    assert scene.replicas.turn(1)
    assert "wake" not in scene.calls
    scene.following.answers["pull"] = False
    scene.leading.answers["advance"] = True
    assert scene.replicas.turn(1)
    assert scene.calls[-1] == "wake"


@pytest.mark.parametrize(("lagging", "advances"), [(False, False), (True, False), (False, True)])
def test_there_is_something_to_do_while_a_copy_lags_or_a_mark_can_move(
    scene: Scene, lagging: bool, advances: bool
) -> None:
    scene.following.answers["is_lagging"] = lagging
    scene.leading.answers["can_advance"] = advances
    assert scene.replicas.pending() == (lagging or advances)


def test_the_ends_of_syncs_are_for_the_followers(scene: Scene) -> None:
    scene.replicas.synced()
    assert scene.calls == ["synced"]

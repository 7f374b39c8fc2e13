"""Who counts as stuck: a child that runs, has started and does not move, while the host and the
parent do."""

import os
from dataclasses import dataclass
from signal import SIGKILL, Signals
from typing import cast

import pytest

from kbroker.ipc.child import STACK_SIGNAL
from kbroker.ipc.layout import ProcessLine
from kbroker.supervisor import watchdog
from kbroker.supervisor.child import Child
from kbroker.supervisor.watchdog import CHECK_MS, STACK_MS, Watchdog, process_state

LIMIT_MS = 10_000


@dataclass
class Role:
    name: str = "control"


class FakeChild:
    def __init__(self) -> None:
        self.role, self.process, self.pid, self.name = Role(), 0, 77, "control 0"
        self.stuck = False
        self.running = True
        self.signals: list[int] = []

    def signal(self, number: Signals) -> None:
        self.signals.append(number)


class Scene:
    def __init__(self) -> None:
        self.lines = ProcessLine.table(1)
        self.lines[0, ProcessLine.HEARTBEAT_NS] = 1
        self.lines[0, ProcessLine.READY] = self.lines[0, ProcessLine.EPOCH] = 1
        self.child = FakeChild()
        self.counted = 0
        self.state = "R"
        self.now_ms = 1_000_000
        self.dog = Watchdog(self.lines, {"control": LIMIT_MS}, self.count, lambda _: self.state)

    def count(self, _: object) -> None:
        self.counted += 1

    def pass_time(self, ms: int, step_ms: int = CHECK_MS, beats: bool = False) -> None:
        for _ in range(ms // step_ms):
            self.now_ms += step_ms
            if beats:
                self.lines[0, ProcessLine.HEARTBEAT_NS] += 1
            self.dog.check([cast(Child, self.child)], self.now_ms)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_process_that_hangs_shows_where_and_is_killed(scene: Scene) -> None:
    scene.pass_time(LIMIT_MS - CHECK_MS)
    assert scene.child.signals == []
    scene.pass_time(2 * CHECK_MS)
    assert (scene.child.signals, scene.counted, scene.child.stuck) == ([STACK_SIGNAL], 1, True)
    scene.pass_time(STACK_MS, STACK_MS)
    assert scene.child.signals == [STACK_SIGNAL, SIGKILL]


def test_who_moves_is_left_alone(scene: Scene) -> None:
    scene.pass_time(10 * LIMIT_MS, beats=True)
    assert scene.child.signals == []


def test_who_has_not_finished_starting_is_left_alone(scene: Scene) -> None:
    scene.lines[0, ProcessLine.EPOCH] = 2
    scene.pass_time(10 * LIMIT_MS)
    assert scene.child.signals == []


def test_who_has_no_heart_is_left_alone(scene: Scene) -> None:
    scene.lines[0, ProcessLine.HEARTBEAT_NS] = 0
    scene.pass_time(10 * LIMIT_MS)
    assert scene.child.signals == []


@pytest.mark.parametrize("state", ["T", "t", "D"])
def test_a_stopped_process_and_one_that_waits_for_a_disk_are_left_alone(scene: Scene, state: str) -> None:
    scene.state = state
    scene.pass_time(10 * LIMIT_MS)
    scene.state = "S"
    scene.pass_time(LIMIT_MS - 2 * CHECK_MS)
    assert scene.child.signals == []


@pytest.mark.parametrize(
    ("own", "threads", "state"),
    [("S", "SD", "D"), ("S", "SS", "S"), ("D", "DS", "D"), ("T", "TD", "T"), ("R", "", "R")],
)
def test_a_process_waits_for_a_disk_if_one_of_its_threads_does(
    monkeypatch: pytest.MonkeyPatch, own: str, threads: str, state: str
) -> None:
    """An IO worker may wait for the lock of checkpoints that its own thread is writing."""
    found = {f"/proc/7/task/{number}/stat": letter for number, letter in enumerate(threads)}
    found["/proc/7/stat"] = own
    monkeypatch.setattr(watchdog, "_state", found.__getitem__)
    monkeypatch.setattr(
        "os.listdir", lambda path: {"/proc/7/task": list(map(str, range(len(threads))))}[path]
    )
    assert process_state(7) == state


def test_the_state_of_a_process_is_read() -> None:
    assert process_state(os.getpid()) in "RS"
    assert process_state(1 << 22) == "R", "there is none"


def test_a_pause_of_the_host_counts_for_one_look(scene: Scene) -> None:
    scene.pass_time(CHECK_MS)
    scene.pass_time(3_600_000, 3_600_000)
    scene.pass_time(CHECK_MS)
    assert scene.child.signals == []


def test_a_successor_starts_over(scene: Scene) -> None:
    scene.pass_time(LIMIT_MS - CHECK_MS)
    scene.child.pid += 1
    scene.pass_time(LIMIT_MS - CHECK_MS)
    assert scene.child.signals == []


@pytest.mark.parametrize(
    ("state", "reason"), [("T", "has stopped it"), ("t", "has stopped it"), ("D", "a disk")]
)
def test_a_still_process_and_its_return_are_logged_once(
    state: str, reason: str, scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.state = state
    scene.pass_time(LIMIT_MS - CHECK_MS)
    assert caplog.messages == []
    scene.pass_time(5 * LIMIT_MS)
    scene.pass_time(2 * CHECK_MS, beats=True)
    first, second = caplog.messages
    assert first.startswith("control 0 has not moved for 10 s: ")
    assert reason in first
    assert second == "control 0 moves again, after 58 s"
    assert scene.child.signals == []


def test_a_process_is_killed_half_a_second_after_its_stack_was_requested(scene: Scene) -> None:
    scene.pass_time(LIMIT_MS + CHECK_MS)
    assert scene.child.signals == [STACK_SIGNAL]
    assert scene.dog.next_check_ms() == scene.now_ms + STACK_MS
    scene.pass_time(STACK_MS - 1, STACK_MS - 1)
    assert scene.child.signals == [STACK_SIGNAL]
    scene.pass_time(1, 1)
    assert scene.child.signals == [STACK_SIGNAL, SIGKILL]


def test_a_process_is_checked_once_a_second(scene: Scene) -> None:
    scene.pass_time(CHECK_MS)
    assert scene.dog.next_check_ms() == scene.now_ms + CHECK_MS
    scene.pass_time(CHECK_MS - 1, CHECK_MS - 1)
    assert scene.dog.next_check_ms() == scene.now_ms + 1


def test_a_late_check_counts_for_two_seconds_at_most(scene: Scene) -> None:
    scene.pass_time(CHECK_MS)
    scene.pass_time(2 * LIMIT_MS, LIMIT_MS)
    scene.pass_time(LIMIT_MS - 4 * CHECK_MS - CHECK_MS)
    assert scene.child.signals == []
    scene.pass_time(CHECK_MS)
    assert scene.child.signals == [STACK_SIGNAL]


def test_a_process_that_has_ended_is_left_alone(scene: Scene) -> None:
    scene.child.running = False
    scene.pass_time(3 * LIMIT_MS)
    assert scene.child.signals == []


def test_a_process_that_moved_at_the_last_moment_has_its_whole_time_again(scene: Scene) -> None:
    scene.pass_time(LIMIT_MS)
    scene.pass_time(CHECK_MS, beats=True)
    scene.pass_time(LIMIT_MS - CHECK_MS)
    assert scene.child.signals == []
    scene.pass_time(CHECK_MS)
    assert scene.child.signals == [STACK_SIGNAL]

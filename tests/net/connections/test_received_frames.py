"""Frames that kernels leave to Python."""

from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.ipc.long_messages import LONG_BYTES
from kbroker.net.connections import received_frames
from kbroker.net.connections.connection import State
from kbroker.net.connections.received_frames import ReceivedFrames, RefusedFrames
from kbroker.net.rows import Context

ROW, CHUNK = 3, 8
FRAME = b"\0\x03\0\x0c" + bytes(20)


class Scene:
    """A process with one connection, whose server and refusals are noted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.connection = SimpleNamespace(state=State.READY)
        words = Context.row()
        words[Context.STALLED], words[Context.MAX_FRAME] = -1, 1000
        arena = bytearray(LONG_BYTES + 1)
        arena[: len(FRAME)] = FRAME
        self.words = words
        note = self.note
        self.process: Any = SimpleNamespace(
            tables=SimpleNamespace(arena_bytes=arena, address=0, words=words),
            connections={ROW: self.connection},
            server=SimpleNamespace(take=note("take"), take_long=note("long"), wait=note("wait")),
            request_turn=note("turn"),
            refuse=note("refuse"),
        )
        monkeypatch.setattr(received_frames, "release_chunk", lambda _, chunk: note("release")(chunk))

    def note(self, name: str) -> Any:
        return lambda *values: self.calls.append((name, *values))


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


@pytest.mark.parametrize("name", ["take", "wait"])
def test_a_short_frame_is_copied_and_its_chunk_released(scene: Scene, name: str) -> None:
    frames = ReceivedFrames(scene.process)
    serve = frames.request if name == "take" else frames.wait
    serve(ROW, 0, len(FRAME), CHUNK)
    assert scene.calls == [("release", CHUNK), (name, scene.connection, FRAME)]


def test_the_frame_of_a_closed_connection_is_released_and_not_served(scene: Scene) -> None:
    scene.process.connections.clear()
    ReceivedFrames(scene.process).request(ROW, 0, len(FRAME), CHUNK)
    assert scene.calls == [("release", CHUNK)]


def test_a_long_frame_stays_in_the_arena_until_it_is_released(scene: Scene) -> None:
    ReceivedFrames(scene.process).request(ROW, 0, LONG_BYTES + 1, CHUNK)
    ((name, connection, frame, release),) = scene.calls
    assert (name, connection, len(frame)) == ("long", scene.connection, LONG_BYTES + 1)
    scene.words[Context.STALLED] = 5
    release()
    assert scene.calls[1:] == [("release", CHUNK), ("turn",)], "a request waits for room"


def test_bad_frames_are_refused_with_their_size_api_and_version(scene: Scene) -> None:
    refused = RefusedFrames(scene.process)
    refused.bad_size(ROW, 2000)
    refused.unserved(ROW, 99, 7, 0)
    refused.bad_request(ROW, 0, len(FRAME), CHUNK)
    texts = [call[2] for call in scene.calls if call[0] == "refuse"]
    assert [("2000" in texts[0], "1000" in texts[0]), ("99" in texts[1], "7" in texts[1])] == [
        (True, True)
    ] * 2
    assert texts[2] == f"a Produce request v12 of {len(FRAME)} bytes cannot be parsed"
    assert ("release", CHUNK) in scene.calls

"""The load generator compiles, checks its arguments, and refuses wrong ones."""

import os
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from bench.generator import Generator, LoadFailed, compile_generator, find_librdkafka
from kbroker.protocol.compression import Codec
from kbroker.protocol.records import build_batch

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="the load generator is C: needs cc")


@pytest.fixture(scope="module")
def generator() -> Generator:
    return Generator(compile_generator(), find_librdkafka())


@contextmanager
def server(answer: Callable[[bytes], bytes | None]) -> Iterator[int]:
    """A port whose every frame is answered by the function; None closes the connection."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(link: socket.socket) -> None:
        with link, suppress(ConnectionError):
            while head := link.recv(4, socket.MSG_WAITALL):
                frame = link.recv(struct.unpack(">i", head)[0], socket.MSG_WAITALL)
                reply = answer(frame)
                if reply is None:
                    return
                body = frame[4:8] + reply
                link.sendall(struct.pack(">i", len(body)) + body)

    def accept() -> None:
        while True:
            try:
                link, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(link,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    with listener:
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def api_versions(error: int) -> Callable[[bytes], bytes]:
    return lambda _: struct.pack(">h", error) + b"\x01" + bytes(5)


def test_connections_are_opened_and_each_answer_counted(generator: Generator) -> None:
    with server(api_versions(0)) as port:
        options = {"port": port, "connections": 20, "window": 4, "warm_connections": 2, "hold": 0}
        events: list[str] = []
        answer = generator.run("connections", options, events.append)
    assert events == ["begin", "end"]
    assert answer["connections"] == 20
    assert answer["latency_us"]["count"] == 20
    assert 0 < answer["latency_us"]["p50"] <= answer["latency_us"]["p99"] <= answer["latency_us"]["max"]


def test_an_error_code_is_a_failure_and_no_figure(generator: Generator) -> None:
    with server(api_versions(35)) as port, pytest.raises(LoadFailed, match="ApiVersions"):
        generator.run("connections", {"port": port, "connections": 2, "warm_connections": 0})


def test_a_missing_listener_is_a_failure(generator: Generator) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(LoadFailed, match="nobody listens"):
        generator.run("produce", {"port": port, "topic": "t"})


def test_a_mistyped_option_is_refused(generator: Generator) -> None:
    with pytest.raises(LoadFailed, match="unknown option --conections"):
        generator.run("connections", {"port": 1, "conections": 5})


class FakeBroker:
    """Knows one topic of one partition; its Produce answers (v7) can be made wrong."""

    def __init__(self, error: int = 0, step: int = 1, loses: int = 0) -> None:
        self.error, self.step, self.loses = error, step, loses
        self.base_offset = 0
        self.appended = 0

    def __call__(self, frame: bytes) -> bytes | None:
        key = struct.unpack_from(">h", frame)[0]
        return {0: self.produce, 2: self.list_offsets, 3: self.metadata}[key]()

    def metadata(self) -> bytes:
        brokers = b"\x02" + struct.pack(">i", 1) + b"\x02h" + struct.pack(">i", 9092) + b"\x00\x00"
        partition = struct.pack(">hiii", 0, 0, 1, 0) + b"\x01\x01\x01\x00"
        topic = b"\x00\x00" + b"\x02t" + bytes(16) + b"\x00" + b"\x02" + partition + bytes(5)
        return b"\x00" + bytes(4) + brokers + b"\x00" + struct.pack(">i", 1) + b"\x02" + topic + b"\x00"

    def list_offsets(self) -> bytes:
        partition = struct.pack(">ihqqi", 0, 0, -1, self.appended, 0) + b"\x00"
        return b"\x00" + bytes(4) + b"\x02" + b"\x02t" + b"\x02" + partition + b"\x00\x00"

    def produce(self) -> bytes:
        offset = self.base_offset
        self.base_offset += self.step
        self.appended += 1
        if self.loses and self.appended == self.loses:
            self.appended -= 1
            self.loses = 0
        partition = struct.pack(">ihqqq", 0, self.error, offset, -1, 0)
        return struct.pack(">ih", 1, 1) + b"t" + struct.pack(">i", 1) + partition + bytes(4)


def produce(generator: Generator, broker: FakeBroker, **more: object) -> int:
    """Requests answered in the measured part."""
    options = {"topic": "t", "connections": 1, "produce_version": 7, "warm": 0.01, "seconds": 0.05, **more}
    with server(broker) as port:
        return int(generator.run("produce", {"port": port, **options})["requests"])


def test_produce_counts_what_a_right_broker_acknowledges(generator: Generator) -> None:
    assert produce(generator, FakeBroker()) > 0


def test_a_given_batch_is_what_is_produced(generator: Generator, tmp_path: Path) -> None:
    given = build_batch([(None, b"v" * 50, (), 1)], codec=Codec.ZSTD)
    (tmp_path / "batch").write_bytes(given)
    seen: list[bytes] = []

    class Watching(FakeBroker):
        def __call__(self, frame: bytes) -> bytes | None:
            if struct.unpack_from(">h", frame)[0] == 0:
                seen.append(frame)
            return super().__call__(frame)

    assert produce(generator, Watching(), batch=tmp_path / "batch") > 0
    assert all(frame.endswith(given) for frame in seen)


def test_a_file_that_is_no_batch_is_refused(generator: Generator, tmp_path: Path) -> None:
    (tmp_path / "batch").write_bytes(b"short")
    with pytest.raises(LoadFailed, match="is no batch"):
        produce(generator, FakeBroker(), batch=tmp_path / "batch")
    with pytest.raises(LoadFailed, match="No such file"):
        produce(generator, FakeBroker(), batch=tmp_path / "missing")


@pytest.mark.parametrize(
    ("broker", "line"),
    [
        (FakeBroker(error=3), "partition 0: error 3"),
        (FakeBroker(step=0), "base offset 0 after 0"),
        (FakeBroker(step=-1), "base offset -1 after 0"),
        (FakeBroker(loses=3), "the log grew by"),
    ],
    ids=["error", "same offset", "falling offset", "lost record"],
)
def test_a_broken_broker_cannot_look_fast(generator: Generator, broker: FakeBroker, line: str) -> None:
    with pytest.raises(LoadFailed, match=line):
        produce(generator, broker)


def test_an_unknown_command_is_refused(generator: Generator) -> None:
    with pytest.raises(LoadFailed, match="unknown command"):
        generator.run("prodcue", {})


def test_the_bare_loops_move_the_bytes_they_report(generator: Generator, tmp_path: Path) -> None:
    copied = generator.run("bare-copy", {"folder": tmp_path, "bytes": 8 << 20, "chunk": 1 << 16})
    assert copied["bytes"] == 8 << 20
    sent = generator.run(
        "bare-sendfile",
        {"folder": tmp_path, "file_bytes": 1 << 20, "chunk": 1 << 16, "warm": 0.01, "seconds": 0.05},
    )
    assert sent["bytes"] > 0
    assert list(tmp_path.iterdir()) == []
    for folder in ("t-0", "t-1", "other-0"):
        (tmp_path / folder).mkdir()
        for name in ("0.log", "1.log", "0.index"):
            (tmp_path / folder / name).write_bytes(bytes(1 << 20))
    assert generator.run("bare-read", {"folder": tmp_path, "pattern": "t-[0-9]"})["bytes"] == 4 << 20
    with pytest.raises(LoadFailed, match="no folder like none"):
        generator.run("bare-read", {"folder": tmp_path, "pattern": "none"})


SHORT = {"topic": "t", "connections": 2, "warm": 0.01, "seconds": 0.05}


def test_the_bare_broker_serves_the_load_generator(generator: Generator, tmp_path: Path) -> None:
    with generator.serve("bare-broker", {"partitions": 4}) as port:
        answer = generator.run("produce", {"port": port, "in_flight": 3, **SHORT})
        assert answer["requests"] == answer["latency_us"]["count"] > 0
        wide = generator.run("produce", {"port": port, "partitions_per_request": 2, **SHORT})
        assert wide["records"] == 2 * wide["requests"]
        assert generator.run("connections", {"port": port, "connections": 20, "hold": 0})["connections"] == 20
        assert generator.run("paced", {"port": port, **SHORT})["records"] > 0
    assert list(tmp_path.iterdir()) == []


OCCUPY = """
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(os.sched_get_priority_max(os.SCHED_FIFO)))
ends = time.monotonic() + 0.05
while time.monotonic() < ends:
    pass
"""
"""Nothing else runs on the processor meanwhile, as if its host had stopped it."""


def test_stops_of_a_processor_are_found_and_their_acks_counted_apart(generator: Generator) -> None:
    load = {"rate": 1000, "watch_stops": 1, **SHORT, "seconds": 1}
    cpu = min(os.sched_getaffinity(0))
    with generator.serve("bare-broker", {"partitions": 4}) as port, ThreadPoolExecutor(1) as pool:
        running = pool.submit(generator.run, "paced", {"port": port, **load})
        time.sleep(0.4)
        stopper = subprocess.run([sys.executable, "-c", OCCUPY, str(cpu)], check=False)
        answer = running.result()
    if "machine" not in answer:
        pytest.skip("this user may not watch processors: SCHED_FIFO needs CAP_SYS_NICE")
    assert stopper.returncode == 0
    machine = answer["machine"]
    assert machine["stops"] >= 1
    assert machine["stopped_ms"] >= 40
    assert machine["running_us"]["count"] <= answer["records"] - 40


@pytest.mark.parametrize("sync", [0, 1])
def test_the_bare_broker_writes_acknowledged_bytes(generator: Generator, tmp_path: Path, sync: int) -> None:
    bare = {"partitions": 2, "folder": tmp_path, "sync": sync, "buffer": 1 << 20}
    before = written(os.getpid())
    with generator.serve("bare-broker", bare) as port:
        options = {"port": port, "records": 20, "value_bytes": 1024, **SHORT, "connections": 16}
        answer = generator.run("produce", options)
        assert answer["bytes"] > 0
    assert written(os.getpid()) - before >= answer["bytes"]
    assert list(tmp_path.iterdir()) == []


def written(pid: int) -> int:
    """Bytes that the process and its ended children gave to write calls."""
    return int(dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())["wchar"])


def test_the_bare_broker_refuses_a_batch_that_is_damaged(generator: Generator, tmp_path: Path) -> None:
    damaged = bytearray(build_batch([(None, b"v" * 50, (), 1)]))
    damaged[-1] ^= 1
    (tmp_path / "batch").write_bytes(damaged)
    options = {"batch": tmp_path / "batch", **SHORT}
    with pytest.raises(LoadFailed), generator.serve("bare-broker", {"folder": tmp_path}) as port:
        generator.run("produce", {"port": port, **options})
    with generator.serve("bare-broker", {}) as port:  # it looks at what it writes alone
        assert generator.run("produce", {"port": port, **options})["requests"] > 0


def test_the_bare_broker_repeats_a_given_answer(generator: Generator, tmp_path: Path) -> None:
    answer, requests = tmp_path / "answer", tmp_path / "requests"
    answer.write_bytes(struct.pack(">i", 4096) + bytes(4096))
    requests.write_bytes((struct.pack(">i", 100) + bytes(100)) * 2)
    options = {"requests": requests, "answer": answer, "connections": 2, "warm": 0.01, "seconds": 0.05}
    with generator.serve("bare-broker", {"answer": answer}) as port:
        assert generator.run("repeat", {"port": port, **options})["requests"] > 0


def test_a_server_that_does_not_start_is_a_failure(generator: Generator) -> None:
    with (
        pytest.raises(LoadFailed, match="unknown option --sink"),
        generator.serve("bare-broker", {"sink": 1}),
    ):
        pass


def test_the_library_is_the_one_of_the_python_client(generator: Generator) -> None:
    assert generator.library.name.startswith("librdkafka")


def request(text: bytes) -> bytes:
    """A frame with a header as far as the server reads it."""
    return struct.pack(">ihhi", 8 + len(text), 10, 4, 7) + text


def reply(text: bytes) -> bytes:
    """The frame that the server answers."""
    return struct.pack(">ii", 4 + len(text), 7) + text


def repeat(
    generator: Generator, folder: Path, port: int, requests: bytes, answers: bytes, **more: object
) -> int:
    """Requests that were answered."""
    (folder / "requests").write_bytes(requests)
    (folder / "answers").write_bytes(answers)
    files = {"requests": folder / "requests", "answer": folder / "answers"}
    options = {"connections": 2, "warm": 0.01, "seconds": 0.05, **files, **more}
    return int(generator.run("repeat", {"port": port, **options})["requests"])


def test_each_request_has_its_own_number_and_so_has_its_answer(generator: Generator, tmp_path: Path) -> None:
    seen: list[bytes] = []

    def echo(frame: bytes) -> bytes:
        seen.append(frame[8:])
        return b"<" + frame[8:] + b">"

    frame, answer = request(b"k-0000000000-k"), reply(b"<k-0000000000-k>")
    at = {"number_at": frame.index(b"0000000000"), "number_in_answer": answer.index(b"0000000000")}
    with server(echo) as port:
        assert repeat(generator, tmp_path, port, 2 * frame, answer, **at) > 0
    assert sorted(seen) == [b"k-%010d-k" % number for number in range(len(seen))]


def test_an_answer_with_another_number_is_refused(generator: Generator, tmp_path: Path) -> None:
    frame, answer = request(b"0000000000"), reply(b"0000000000")
    at = {"number_at": 12, "number_in_answer": 8}
    with server(lambda _: b"0000000000") as port, pytest.raises(LoadFailed, match="another answer"):
        repeat(generator, tmp_path, port, 2 * frame, answer, **at)
    with server(lambda _: b"") as port, pytest.raises(LoadFailed, match="no place for its number"):
        repeat(generator, tmp_path, port, 2 * frame, answer, number_at=13)


def test_each_connection_sends_its_requests_once_and_in_order(generator: Generator, tmp_path: Path) -> None:
    seen: list[bytes] = []

    def echo(frame: bytes) -> bytes:
        seen.append(frame[8:])
        return frame[9:]

    requests = b"".join(request(b"%c%d" % (name, number)) for name in b"ab" for number in range(3))
    answers = b"".join(reply(b"%d" % number) for number in range(3))
    once = {"each": 3, "warm": 0, "seconds": 60}
    with server(echo) as port:
        assert repeat(generator, tmp_path, port, requests, answers, **once) == 6
    assert [each for each in seen if each[:1] == b"a"] == [b"a0", b"a1", b"a2"]
    assert [each for each in seen if each[:1] == b"b"] == [b"b0", b"b1", b"b2"]
    with server(echo) as port, pytest.raises(LoadFailed, match="another answer"):
        repeat(generator, tmp_path, port, requests, reply(b"0") * 3, **once)
    with pytest.raises(LoadFailed, match="there are 2 answers"):
        repeat(generator, tmp_path, 1, requests, reply(b"0") * 2, **once)
    with server(echo) as port, pytest.raises(LoadFailed, match="before the measured part"):
        repeat(generator, tmp_path, port, requests, answers, each=3, warm=60)

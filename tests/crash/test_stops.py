"""Stops as services do them: at any moment of a start, to one process or to all, once or five
times, always clean.

KBROKER_STOPS says how often (8; the whole claim: 200), KBROKER_CRASH_SEED repeats a run.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer

from tests.crash.seeds import SEED, chances
from tests.peer.kbroker_node import ROOT, KBroker

pytestmark = [pytest.mark.crash, pytest.mark.timeout(3600)]

STOPS = int(os.environ.get("KBROKER_STOPS", "8"))
LATEST_S = 3.0  # after the first line of the program; a start takes about half a second
Send = Callable[[psutil.Process, signal.Signals], None]
MARKER = ".kafka_cleanshutdown"
TRIES = 20  # to stop a start before it is ready


def to_parent(process: psutil.Process, number: signal.Signals) -> None:
    os.kill(process.pid, number)


def to_group(process: psutil.Process, number: signal.Signals) -> None:
    os.killpg(process.pid, number)


def to_all(process: psutil.Process, number: signal.Signals) -> None:
    """Children first: they get it before the parent knows."""
    for one in [*process.children(recursive=True), process]:
        try:
            os.kill(one.pid, number)
        except ProcessLookupError:
            continue


def heeds_signals(pid: int) -> bool:
    """Whether the program has begun: before that there is only an interpreter that loads."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) & 1 << signal.SIGTERM - 1)
    return False


def wait_until_begun(process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 90
    while not heeds_signals(process.pid):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[KBroker]:
    """Stopped clean, with one record in each of eight partitions."""
    broker = KBroker(tmp_path, {"num.partitions": "8", "num.io.threads": "2", "num.network.threads": "2"})
    bootstrap = broker.start()
    producer = Producer({"bootstrap.servers": bootstrap})
    for partition in range(8):
        producer.produce("kept", b"one", partition=partition)
    assert producer.flush(120) == 0
    broker.stop()
    yield broker
    broker.kill9()


def stop_once(broker: KBroker, send: Send, number: signal.Signals, times: int, at_s: float) -> str:
    """Start, stop at a moment; what was wrong with the stop, nothing if it was clean."""
    log = broker.folder / "stop.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "kbroker", "serve", "--override", f"log.dirs={broker.data_dir}",
             "--override", "listeners=PLAINTEXT://127.0.0.1:0", "--override", "num.io.threads=2",
             "--override", "num.network.threads=2", "--override", "kbroker.http.listen=127.0.0.1:0"],
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=ROOT, start_new_session=True,
        )  # fmt: skip
    try:
        wait_until_begun(process)
        time.sleep(at_s)
        target = psutil.Process(process.pid)
        for _ in range(times):
            if process.poll() is None:
                send(target, number)
            time.sleep(0.003)
        code = process.wait(120)
        left = [one for one in psutil.process_iter() if _session(one.pid) == process.pid]
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    text = log.read_text()
    wrong = [f"exit code {code}"] * bool(code) + [f"left behind: {left}"] * bool(left)
    wrong += [
        f"log says {word!r}" for word in ("died", "restarting", "Traceback", "not cleanly") if word in text
    ]
    wrong += ["stopped twice"] * (text.count("kbroker stopped") > 1)
    wrong += ["no clean marker"] * (not (broker.data_dir / MARKER).exists())
    return f"{', '.join(wrong)}\n{text}" if wrong else ""


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return -1


def test_a_stop_at_any_moment_of_the_start_is_one_clean_stop(broker: KBroker) -> None:
    chance = chances()
    for count in range(STOPS):
        send = chance.choice((to_parent, to_group, to_all))
        number = chance.choice((signal.SIGTERM, signal.SIGINT))
        times, at_s = chance.choice((1, 5)), chance.uniform(0, LATEST_S) ** 2 / LATEST_S
        case = (
            f"stop {count} of seed {SEED}: {send.__name__}, {number.name}, {times} times, after {at_s:.3f} s"
        )
        wrong = stop_once(broker, send, number, times, at_s)
        assert not wrong, f"{case}: {wrong}"


def test_a_stop_in_mid_recovery_does_not_call_unchecked_logs_clean(broker: KBroker) -> None:
    for _ in range(TRIES):
        (broker.data_dir / MARKER).unlink()
        wrong = stop_once(broker, to_group, signal.SIGTERM, 1, 0.05)
        if wrong:
            break
        assert "kbroker ready" in (broker.folder / "stop.log").read_text(), "marked before it was ready"
    assert wrong.startswith("no clean marker\n")
    broker.start()
    broker.stop()
    assert (broker.data_dir / MARKER).exists()

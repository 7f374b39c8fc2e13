"""The broker dies at named places, one after the other, at random moments, while everything at once
is in progress.

``make crash-matrix`` runs KBROKER_CRASHES (300) of them, ``make test-full`` one at each place, the
tier alone a few. Each place that is drawn has to be reached: where the drawn count is not within
its patience, the first time is waited for. Every death is printed;
KBROKER_CRASH_PLACES=truncate,roll keeps a run to some of the places.
"""

import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from kbroker.ipc.crash_point import VARIABLE
from tests.crash.crash_load import PIECES
from tests.crash.failovers import Failovers
from tests.crash.load import PARTITIONS, Load, judge, read_all
from tests.crash.places import deaths, drawn, places
from tests.crash.seeds import chances
from tests.crash.segment_chain import all_faults
from tests.crash.sited import create, start_sites
from tests.peer.eventually import eventually
from tests.peer.kbroker_node import BrokerFailed, KBroker

CRASHES = deaths()
pytestmark = [pytest.mark.crash, pytest.mark.timeout(1200 + 12 * CRASHES)]

TOPIC = "plain"
KILLED = f"kbroker ended with {-signal.SIGKILL}"
PATIENCE_S = 10.0
TRIES = 5  # to reach a place that was drawn
AT_START = ("recovery: ", "leader change: epoch")
# reached by failovers, after which the former leader truncates its log
AT_FAILOVER = ("truncate: ", "leader change: decision stored", "leader change: leader confirmed")
FAILOVER_PATIENCE_S = 45.0  # one takes about three
ONCE = {"leader change: epoch stored", "store: write-ahead log out of the way"}  # in each start
FEW = {"delete records: log start advanced": 3, "retention: log start advanced": 4}
MANY = {
    "append: before the write": 300,
    "append: written and answered": 300,
    "compaction: step of the swap": 60,
}
MANY |= {
    "sync: done, not published": 30,
    "checkpoint: renamed": 40,
    "checkpoint: temporary file written": 40,
}
SETTINGS = {
    "num.io.threads": "2",
    "broker.session.timeout.ms": "40000",  # longer than failovers.HELD_S
    "log.roll.ms": "100",
    "log.retention.check.interval.ms": "200",
    "log.initial.task.delay.ms": "100",
    "log.segment.delete.delay.ms": "100",
    "log.cleaner.backoff.ms": "50",
    "log.flush.offset.checkpoint.interval.ms": "200",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
}


def test_nothing_is_lost_torn_or_resurrected_wherever_it_dies(
    broker_factory: Callable[..., KBroker], tmp_path: Path
) -> None:
    """On two sites; every other kind of load is on topics with a replica on each."""
    chance = chances()
    broker, dirs = start_sites(broker_factory, tmp_path, 2, SETTINGS)
    create(broker, TOPIC, PARTITIONS, 2)
    load = Load(broker.bootstrap, TOPIC, {"delivery.timeout.ms": 280_000})
    pieces = [piece(broker.bootstrap, 1 + number % 2) for number, piece in enumerate(PIECES)]
    load.start()
    for piece in pieces:
        piece.start()
    time.sleep(1)
    broker.kill9()
    reached: Counter[str] = Counter()
    names = places()
    try:
        for number, name in enumerate(drawn(chance, names, CRASHES)):
            for tried, count in enumerate((chance.randint(1, _most(name)), *[1] * (TRIES - 1))):
                died = _die(broker, dirs, name, count, patience=1 + tried)
                reached[name] += died
                print(f"{number}: {name}:{count} {'died' if died else 'was not reached, killed'}")
                if died:
                    break
        _serve(broker)
        for piece in pieces:
            piece.wait_for_progress()
    except BaseException:
        _serve(broker)  # the loads end when all they sent is answered
        raise
    finally:
        load.stop()
        for piece in pieces:
            piece.stop()
    broker.stop()
    assert all_faults(dirs, TOPIC) == []
    broker.start()
    judge(load, read_all(broker.bootstrap, TOPIC))
    for piece in pieces:
        piece.judge()
    print(f"{sum(reached.values())} deaths at {len(reached)} of {len(names)} places; {load.count} records")
    assert len(reached) == min(CRASHES, len(names))
    assert [name for name, deaths in reached.items() if not deaths] == [], "never reached"
    broker.stop()


def _most(name: str) -> int:
    if name in ONCE:
        return 1
    if name.startswith(AT_START):
        return 6
    return 2 if name.startswith(AT_FAILOVER) else FEW.get(name, MANY.get(name, 12))


def _die(broker: KBroker, dirs: list[Path], name: str, count: int, patience: int) -> bool:
    """Start a broker that dies at the n-th time; whether it did within so many times its
    patience."""
    broker.environment[VARIABLE] = f"{name}:{count}"
    if not _start(broker):
        return True
    failovers = Failovers(broker, dirs, TOPIC) if name.startswith(AT_FAILOVER) else None
    deadline = time.monotonic() + patience * (FAILOVER_PATIENCE_S if failovers else PATIENCE_S)
    assert broker.process is not None
    while broker.process.poll() is None:
        if time.monotonic() > deadline:
            broker.kill9()
            if failovers:
                print(f"{failovers.done} failovers")
            return False
        if failovers:
            failovers.fail_over(deadline)
        time.sleep(0.02)
    assert broker.process.returncode == -signal.SIGKILL, broker.logs()
    session = broker.process.pid
    eventually(lambda: not any(_session(pid) == session for pid in psutil.pids()))
    broker.process = None
    assert all_faults(dirs, TOPIC) == [], name
    return True


def _session(pid: int) -> int:
    """Session of a process that has not ended; a broker's processes have that of its parent."""
    with suppress(ProcessLookupError, psutil.Error):
        if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
            return os.getsid(pid)
    return -1


def _serve(broker: KBroker) -> None:
    """Start a broker that dies nowhere."""
    broker.environment.clear()
    broker.kill9()
    _start(broker)


def _start(broker: KBroker) -> bool:
    """Whether it became ready; False when it died at its crash point."""
    while True:
        seen = len(broker.logs(1 << 30))
        try:
            broker.start()
            return True
        except BrokerFailed as failed:
            reported = broker.logs(1 << 30)[seen:]
            if "in use by another broker" in reported:  # a child of the last one is still ending
                time.sleep(0.05)
                continue
            # only the place kills -9; control may still have said that partitions lost their leader
            if str(failed).startswith(KILLED) and "Traceback" not in reported:
                time.sleep(0.1)
                return False
            raise

"""The files of kbroker/ that one request runs through: `python -m tests.request_files` lists them
for a produce, a warm fetch and a commit.

A broker runs without kernels, so that every step is a Python call. Its processes note the files of
their calls while a request is served. What runs by the clock is left out: only files that all
rounds have in common count. On a busy machine it runs in many rounds, so the last ROUNDS must have
removed no file.
"""

import os
import re
import signal
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import psutil

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.frame import encode_request
from kbroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from kbroker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kbroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kbroker.protocol.records import build_batch
from kbroker.protocol.schema import Struct
from tests.compat.group_clients import create_topic
from tests.compat.raw import receive
from tests.peer.eventually import eventually
from tests.peer.kbroker_node import ROOT, KBroker

GROUP = "files"
ROUNDS = 30
"""Consecutive ones that remove no file."""
SERVES = re.compile(r"kbroker: (network|io|control)")
WARM_UP = 20
SIGNALS = 20
"""Rounds without a request: a signal ends the sleep of an IO worker."""
LIBRARY = "kbroker/kernels/"
"""Loads, stores and the like: not counted."""
SETTINGS = {
    "kbroker.confine.processes": "false",
    "num.network.threads": "1",
    "num.io.threads": "1",
    "offsets.topic.num.partitions": "1",
}
NOTING = """
import os, signal, sys
seen = set()
def note(frame, event, argument):
    if event == "call":
        seen.add(frame.f_code.co_filename)
def turn(number, frame):
    noting = sys.getprofile() is not None
    sys.setprofile(None)
    with open(os.path.join(os.environ["FILES_NOTED_IN"], str(os.getpid())), "a") as out:
        out.write(("\\n".join(sorted(seen)) if noting else "") + "\\n.\\n")
    seen.clear()
    if not noting:
        sys.setprofile(note)
signal.signal(signal.SIGRTMIN + 5, turn)
"""


class Noting:
    """The processes of a broker below a folder of notes."""

    def __init__(self, broker: KBroker, notes: Path) -> None:
        self._notes = notes
        children = psutil.Process(broker.pid).children(recursive=True)
        self._pids = [each.pid for each in children if SERVES.search(" ".join(each.cmdline()))]
        self._woken: dict[int, list[set[str]]] = {pid: [] for pid in self._pids}
        """Files that the signals alone let a process run, in each of some rounds."""
        for _ in range(SIGNALS):
            for pid, files in self._noted(lambda: None).items():
                self._woken[pid].append(files)

    def files(self, request: Callable[[], None]) -> set[str]:
        """Files that ran between two signals, relative to the repository, in the processes that
        took part."""
        noted = self._noted(request)
        found = set[str]().union(*(files for pid, files in noted.items() if files not in self._woken[pid]))
        return {name[len(f"{ROOT}/") :] for name in found if name.startswith(f"{ROOT}/kbroker/")}

    def _noted(self, request: Callable[[], None]) -> dict[int, set[str]]:
        self._turn()
        request()
        return self._turn()

    def _turn(self) -> dict[int, set[str]]:
        found: dict[int, set[str]] = {}
        for pid in self._pids:
            note = self._notes / str(pid)
            note.unlink(missing_ok=True)
            os.kill(pid, signal.SIGRTMIN + 5)
            eventually(lambda note=note: note.exists() and note.read_text().endswith("\n.\n"))  # type: ignore[misc]
            found[pid] = set(note.read_text().splitlines())
        return found


def ask(link: socket.socket, api: ApiKey, version: int, request: Struct) -> None:
    link.sendall(encode_request(api, version, 7, "files", request))
    size = receive(link, 4)
    assert size is not None
    assert receive(link, struct.unpack(">i", size)[0])


def requests() -> Mapping[str, tuple[ApiKey, int, Struct]]:
    batch = build_batch([(b"key", b"value", (), time.time_ns() // 1_000_000)])
    data = TopicProduceData("t", partition_data=[PartitionProduceData(0, batch)])
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    offset = OffsetCommitRequestPartition(0, 1)
    return {
        "produce": (ApiKey.PRODUCE, 9, ProduceRequest(acks=1, timeout_ms=9000, topic_data=[data])),
        "fetch": (
            ApiKey.FETCH,
            12,
            FetchRequest(min_bytes=1, max_bytes=1000, topics=[FetchTopic("t", partitions=[part])]),
        ),
        "commit": (
            ApiKey.OFFSET_COMMIT,
            8,
            OffsetCommitRequest(GROUP, topics=[OffsetCommitRequestTopic("t", partitions=[offset])]),
        ),
    }


def ready(link: socket.socket) -> None:
    """The group has its coordinator."""
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP])
    for _ in range(WARM_UP):
        ask(link, ApiKey.FIND_COORDINATOR, 4, request)
        time.sleep(0.5)


def common(noting: Noting, request: Callable[[], None]) -> set[str]:
    """The files that ran in every round."""
    found, unchanged = noting.files(request), 0
    while unchanged < ROUNDS:
        before = len(found)
        found &= noting.files(request)
        unchanged = unchanged + 1 if len(found) == before else 0
    return found


def counted(folder: Path) -> dict[str, list[str]]:
    """The files that each request runs through. folder: an empty one."""
    hook, notes = folder / "hook", folder / "notes"
    hook.mkdir()
    notes.mkdir()
    (hook / "sitecustomize.py").write_text(NOTING)
    broker = KBroker(folder, SETTINGS)
    broker.environment = {
        "KBROKER_NO_KERNELS": "1",
        "PYTHONPATH": f"{hook}:{ROOT}",
        "FILES_NOTED_IN": str(notes),
    }
    broker.start()
    try:
        create_topic(broker, "t", 1)
        noting = Noting(broker, notes)
        host, _, port = broker.bootstrap.rpartition(":")
        found = {}
        with socket.create_connection((host, int(port)), timeout=60) as link:
            ready(link)
            for name, arguments in requests().items():
                one = partial(ask, link, *arguments)
                for _ in range(WARM_UP):
                    one()
                files = common(noting, one)
                found[name] = sorted(each for each in files if not each.startswith(LIBRARY))
        return found
    finally:
        broker.stop()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, files in counted(Path(folder)).items():
            print(f"{name}: {len(files)} files", *files, sep="\n  ")


if __name__ == "__main__":
    sys.exit(main())

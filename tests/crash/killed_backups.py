"""A run of a load whose broker is backed up while its processes are killed, and the broker that is
restored from the last backup."""

import random
import subprocess
import time
from pathlib import Path

from loadtest.settings import Settings
from tests.compat.moving import Trickle
from tests.conftest import BrokerFactory
from tests.crash.backup_load import command, restored, values
from tests.loadtest.played_load import CATCH_UP, PlayedLoad
from tests.peer.eventually import eventually
from tests.peer.kbroker_node import ROOT, KBroker
from tests.peer.side_work import Beside

LOAD = Settings(
    seconds=600,
    rate=300,
    partitions=3,
    plain=0,
    idempotent=1,
    transactional=1,
    copiers=0,
    churn_seconds=0,
    segment_bytes=1 << 20,
)
ROLES = ("network 0", "io 0", "control")
PAUSE_S = (0.3, 2.0)
KILLS = 10
ATTEMPTS = 30
CALM = 3  # attempts, after which the pauses between the kills grow


class Killer(Beside):
    """Kills one process of a broker after the other, in a thread; the run notes each."""

    def __init__(self, broker: KBroker, load: PlayedLoad) -> None:
        super().__init__()
        self.kills = 0
        self.pace = 1.0
        self._broker = broker
        self._load = load

    def _work(self) -> None:
        chance = random.Random(23)
        while not self._stop.wait(chance.uniform(*PAUSE_S) * self.pace):
            role = chance.choice(ROLES)
            self._broker.kill9_running(role)
            self._load.note_fault("kill", role)
            self.kills += 1


def taken(source: KBroker, dest: Path, killer: Killer) -> int:
    """Attempts until a backup is complete: a killed process may have owed it an answer. On a
    machine where a backup takes long, the kills become rarer until one is through."""
    for attempt in range(1, ATTEMPTS + 1):
        killer.pace = max(1.0, attempt / CALM)
        words = command("backup", str(dest), "--bootstrap", source.bootstrap)
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=120)
        assert "Traceback" not in done.stderr, done.stderr
        if done.returncode == 0:
            killer.pace = 1.0
            return attempt
        assert done.stderr.strip(), "a backup that fails names its reason"
        time.sleep(0.1)
    raise AssertionError(done.stderr)


def restored_run(broker_factory: BrokerFactory, folder: Path) -> tuple[PlayedLoad, KBroker]:
    """A whole run whose records were read again after the restore, and the restored broker. Records
    written beside it until the last backup are there without holes."""
    settings = {"transaction.state.log.num.partitions": "2", "offsets.topic.num.partitions": "2"}
    source, dest = broker_factory(settings), folder / "backups"
    load, beside = PlayedLoad(folder / "run", source.bootstrap, LOAD), Trickle(source.bootstrap, "beside")
    try:
        load.start()
        with Killer(source, load) as killer:
            eventually(lambda: load.acknowledged() > 300)
            attempts = [taken(source, dest, killer) for _ in range(3)]
            eventually(lambda: killer.kills >= KILLS)
            load.stop("produce")
            load.stop("consume", CATCH_UP)
            known = {partition: len(sent) for partition, sent in beside.acknowledged.items()}
            attempts.append(taken(source, dest, killer))  # the run is over, the kills and `beside` are not
    finally:
        load.kill()
        beside.stop()
    source.stop()
    print(f"{killer.kills} kills, {attempts} attempts until a backup was complete")
    copy = restored(broker_factory, dest, folder / "restored")
    for partition, acknowledged in known.items():
        found = values(copy.bootstrap, "beside", partition)
        assert found == list(range(len(found)))
        assert acknowledged <= len(found) <= len(beside.acknowledged[partition])
    load.go_to(copy.bootstrap)
    assert load.finish()
    return load, copy

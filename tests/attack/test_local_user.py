"""Another user of the same host: no way into the broker's processes, whichever of them has been
restarted."""

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.attack.processes import ROLES, family, until
from tests.compat.raw import SocketPeer
from tests.conftest import BrokerFactory
from tests.peer.compaction import leave_dirt
from tests.peer.kbroker_node import ROOT, KBroker
from tests.peer.scrape import base, get

pytestmark = pytest.mark.slow


def unix_names(process: psutil.Process) -> list[str]:
    """Names of its Unix sockets, abstract ones with an @."""
    own = set()
    for each in Path(f"/proc/{process.pid}/fd").iterdir():
        try:
            own.add(str(each.readlink()))
        except FileNotFoundError:
            continue
    lines = Path("/proc/net/unix").read_text().splitlines()[1:]
    rows = [line.split(maxsplit=7) for line in lines]
    return [row[7] for row in rows if len(row) == 8 and f"socket:[{row[6]}]" in own]


def successor(broker: KBroker, role: str, old: int) -> bool:
    now = family(broker)
    return role in now and now[role].pid != old


def creates_a_topic(broker: KBroker, name: str) -> bool:
    """Takes a network process, control and an IO worker."""
    request = CreateTopicsRequest([CreatableTopic(name, 1, 1)], 20_000, False)
    try:
        answer: Any = SocketPeer(int(broker.bootstrap.rpartition(":")[2])).ask(
            ApiKey.CREATE_TOPICS, 5, request
        )
    except OSError:
        return False
    return answer is not None and answer.topics[0].error_code in (0, 36)


def test_no_socket_between_processes_has_a_name_also_after_kill_9_of_each(
    broker_factory: BrokerFactory,
) -> None:
    broker = broker_factory({"num.network.threads": "1", "num.io.threads": "1"})
    assert get(base(broker) + "/healthz")[0] == 200  # the first request starts http
    leave_dirt(broker.bootstrap)  # starts the cleaner
    until(lambda: set(ROLES) <= set(family(broker)))
    for number, role in enumerate(ROLES):
        before = family(broker)
        assert [unix_names(process) for process in before.values()] == [[] for _ in before]
        os.kill(before[role].pid, signal.SIGKILL)
        until(partial(successor, broker, role, before[role].pid))
        until(partial(creates_a_topic, broker, f"t{number}"))
    assert "Traceback" not in broker.logs()


def test_only_the_brokers_user_can_read_its_files(broker_factory: BrokerFactory) -> None:
    broker = broker_factory(start=False)
    broker.data_dir.mkdir(parents=True, mode=0o755)
    broker.data_dir.chmod(0o755)
    store = broker.data_dir / "kbroker.db"
    broker.start()
    until(lambda: creates_a_topic(broker, "t"))
    broker.stop()
    store.chmod(0o644)  # as an earlier version has made it
    broker.start()
    until(lambda: creates_a_topic(broker, "u"))
    made = {path: path.lstat().st_mode & 0o777 for path in broker.data_dir.rglob("*")}
    assert store in made
    assert {path.name: oct(mode) for path, mode in made.items() if mode & 0o077} == {}
    assert broker.data_dir.stat().st_mode & 0o777 == 0o755  # the operator's own choice


def test_no_process_can_gain_privileges_and_none_shows_a_password(broker_factory: BrokerFactory) -> None:
    users = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_a="opensesame";'
    broker = broker_factory({"listener.name.plaintext.plain.sasl.jaas.config": users})
    until(lambda: set(ROLES[:3]) - {"io 0", "network 0"} <= set(family(broker)))
    for process in family(broker).values():
        status = Path(f"/proc/{process.pid}/status").read_text()
        assert "NoNewPrivs:\t1" in status
        shown = Path(f"/proc/{process.pid}/cmdline").read_bytes()
        assert b"opensesame" not in shown
    parent = Path(f"/proc/{broker.pid}/cmdline").read_text()
    assert "serve" in parent
    assert "plain.sasl.jaas.config=[hidden]" in parent
    assert "opensesame" not in broker.logs()


def test_a_password_in_a_bad_override_is_not_repeated() -> None:
    command = [sys.executable, "-m", "kbroker", "serve", "--override", "sasl.jaas.config opensesame"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 2
    assert "opensesame" not in done.stdout + done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of another user")
def test_a_cache_folder_that_another_user_has_made_first_stops_the_start(tmp_path: Path) -> None:
    home, temporary = tmp_path / "home", tmp_path / "tmp"
    for folder in (home, temporary / f"kbroker-{os.getuid()}"):
        folder.mkdir(parents=True)
        os.chown(folder, 54321, 54321)
    command = [sys.executable, "-m", "kbroker", "serve", "--override", f"log.dirs={tmp_path}/data"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=60,
        env={**os.environ, "XDG_CACHE_HOME": str(home), "TMPDIR": str(temporary)},
    )  # fmt: skip
    assert done.returncode == 1
    assert "user 54321 owns it" in done.stderr
    assert "Traceback" not in done.stderr

import json
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from kbroker.config.broker import BrokerConfig
from tests.peer.kbroker_node import KBroker
from tests.tuning.fakes import FakeRoots
from tuning.coefficients import Coefficients, WrongFile
from tuning.gather import Sources, coefficients_of, count_partitions, gather, limit_of_broker, workload_of
from tuning.live import parse

PAGE = """\
kbroker_info{version="1"} 1
kbroker_process_start_time_seconds{process="acceptor"} 1000
kbroker_appended_bytes_total 5000000
kbroker_requests_total{api="Produce",version="9"} 1000
kbroker_connections{listener="PLAINTEXT",process="network-0"} 30
kbroker_topic_partitions{topic="t"} 12
kbroker_topic_partitions{topic="__consumer_offsets"} 50
kbroker_groups{type="classic",state="Stable"} 3
"""


def test_partitions_are_counted_in_log_dirs_without_internal_ones(tmp_path: Path) -> None:
    for name in ("a-0", "a-1", "with-dash-2", "__consumer_offsets-0", "not_one"):
        (tmp_path / name).mkdir()
    (tmp_path / "file-3").touch()
    assert count_partitions((str(tmp_path), str(tmp_path / "none"))) == 3


def test_given_goes_before_seen_goes_before_settings(tmp_path: Path) -> None:
    config = BrokerConfig({"log.retention.hours": "24", "kbroker.write.caching": "false"})
    load, origin = workload_of({"groups": 9, "copies": None}, config, parse(PAGE), (), 1100.0)
    assert (load.write_rate, load.batch_bytes, load.connections, load.partitions) == (50000, 5000, 30, 12)
    assert (load.groups, origin["groups"]) == (9, "given")
    assert (load.retention_s, load.durable) == (86400, True)
    assert "copies" not in origin


def test_groups_without_members_read_nothing() -> None:
    page = f'{PAGE}kbroker_groups{{type="classic",state="Empty"}} 200\n'
    load, origin = workload_of({}, BrokerConfig({}), parse(page), (), 1100.0)
    assert (load.groups, origin["groups"]) == (3, "/metrics")


@pytest.mark.parametrize(
    ("listeners", "remote"), [("PLAINTEXT://127.0.0.1:9092", False), ("PLAINTEXT://:9092", True)]
)
def test_a_loopback_listener_has_no_remote_clients(listeners: str, remote: bool) -> None:
    load, _ = workload_of({}, BrokerConfig({"listeners": listeners}), None, (), 0.0)
    assert load.remote_clients is remote


def test_metrics_are_read_twice_if_there_is_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    appended = iter((5_000_000, 5_000_700, 6_000_000))
    waited: list[float] = []
    monkeypatch.setattr(
        "tuning.gather.scrape", lambda _: parse(PAGE.replace("total 5000000", f"total {next(appended)}"))
    )
    monkeypatch.setattr("tuning.gather.time.sleep", waited.append)
    sources = Sources(dirs=[str(tmp_path)], metrics="there", roots=FakeRoots(tmp_path / "root").roots)
    twice, _ = gather(replace(sources, watch_s=3.0), {})
    assert twice.live is not None
    assert twice.recent is not None
    assert waited == [3.0]
    assert twice.live.total("kbroker_appended_bytes_total") == 5_000_700
    assert twice.recent.total("kbroker_appended_bytes_total") == 700
    assert twice.recent.total("kbroker_groups") == 3
    assert gather(sources, {})[0].recent is None


def test_speeds_come_from_the_file_of_the_settings_unless_one_is_named(tmp_path: Path) -> None:
    Coefficients("a bench", write_rate=1e9).save(tmp_path / "of-the-broker.json")
    Coefficients("another", write_rate=2e9).save(tmp_path / "named.json")
    own = f"kbroker.host.file={tmp_path}/of-the-broker.json"
    sources = Sources(overrides=[own], dirs=[str(tmp_path)], roots=FakeRoots(tmp_path / "root").roots)
    assert gather(sources, {})[0].coefficients.write_rate == 1e9
    named = replace(sources, coefficients=tmp_path / "named.json")
    assert gather(named, {})[0].coefficients.write_rate == 2e9


def test_a_situation_knows_what_was_only_assumed(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(f"log.dirs={tmp_path}\n")
    fake = FakeRoots(tmp_path / "root")
    sources = Sources(file, ["num.io.threads=3"], roots=fake.roots)
    situation, lines = gather(sources, {"partitions": 7})
    assert situation.host.log_dirs == (str(tmp_path),)
    assert situation.io_workers == 3
    assert situation.knows("partitions")
    assert not situation.knows("partitions", "write_rate")
    assert "partitions 7 (given)" in lines
    assert "50 MB/s written (assumed)" in lines


def test_log_dirs_come_from_the_settings_else_from_the_running_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = parse(f'{PAGE}kbroker_log_dir_offline{{dir="{tmp_path}"}} 0\n')
    monkeypatch.setattr("tuning.gather.scrape", lambda _: live)
    roots = FakeRoots(tmp_path / "root").roots

    def dirs(sources: Sources) -> tuple[str, ...]:
        return gather(sources, {})[0].host.log_dirs

    assert dirs(Sources(metrics="broker:9404", roots=roots)) == (str(tmp_path),)
    assert dirs(Sources(overrides=["log.dirs=/srv"], metrics="broker:9404", roots=roots)) == ("/srv",)
    assert dirs(Sources(dirs=["/mnt"], metrics="broker:9404", roots=roots)) == ("/mnt",)
    live = parse(f'{PAGE}kbroker_log_dir_offline{{dir="{tmp_path}/of-another-host"}} 0\n')
    assert dirs(Sources(metrics="broker:9404", roots=roots)) == ("/tmp/kafka-logs",)


def test_coefficients_come_from_their_file(tmp_path: Path) -> None:
    file = tmp_path / "host.json"
    Coefficients("bench", write_rate=1e9).save(file)
    assert coefficients_of(file) == Coefficients("bench", write_rate=1e9)
    assert coefficients_of(file).measured
    assert not Coefficients().measured


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("nonsense", "Expecting"),
        ("[]", "not an object"),
        ('{"x": 1}', "unknown x"),
        ('{"write_rate": -1}', "write_rate"),
        ('{"write_rate": 1e400}', "write_rate"),
        ('{"write_rate": 1e-310}', "write_rate"),
        ('{"write_rate": 1' + "0" * 400 + "}", "write_rate"),
        ("[" * 100_000, "not a file of `kbroker tune bench`"),
    ],
)
def test_a_wrong_coefficients_file_is_refused_with_the_reason(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "host.json"
    file.write_text(text)
    with pytest.raises(WrongFile, match=why):
        coefficients_of(file)
    with pytest.raises(WrongFile, match=r"none\.json: No such file or directory$"):
        coefficients_of(tmp_path / "none.json")
    with pytest.raises(WrongFile, match=r": Is a directory$"):
        coefficients_of(tmp_path)


def test_a_saved_file_is_json(tmp_path: Path) -> None:
    Coefficients().save(tmp_path / "host.json")
    assert json.loads((tmp_path / "host.json").read_text())["write_rate"] == 150e6


@pytest.mark.parametrize(
    ("titles", "limit"),
    [
        (["kbroker: control"], 321),
        (["kbroker: network 0"], None),
        (["kbroker: control"] * 2, None),
        ([], None),
    ],
)
def test_the_limit_of_descriptors_is_that_of_the_only_broker(titles: list[str], limit: int | None) -> None:
    command = 'ulimit -n 321; exec -a "$0" sleep 60'
    children = [subprocess.Popen(["bash", "-c", command, title]) for title in titles]
    try:
        for child, title in zip(children, titles, strict=True):
            while psutil.Process(child.pid).cmdline()[:1] != [title]:
                time.sleep(0.01)
        assert limit_of_broker([psutil.Process(child.pid) for child in children]) == limit
    finally:
        for child in children:
            child.kill()
            child.wait()


@pytest.mark.compat
def test_a_running_broker_is_found_by_its_title(broker: KBroker) -> None:
    children = list(broker.children().values())
    assert limit_of_broker(children) == children[0].rlimit(psutil.RLIMIT_NOFILE)[1]

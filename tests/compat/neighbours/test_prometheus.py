"""Prometheus scrapes a broker with the configuration of docs/neighbours.md and has its series."""

import json
import os
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.compat.group_clients import create_topic, produce
from tests.conftest import BrokerFactory
from tests.peer.eventually import eventually
from tests.peer.ports import free_port
from tests.peer.scrape import base

pytestmark = [pytest.mark.compat, pytest.mark.slow, pytest.mark.timeout(200)]

CONFIG = """\
global: {scrape_interval: 1s}
scrape_configs:
  - job_name: kbroker
    static_configs: [{targets: ["ADDRESS"]}]
"""
Query = Callable[[str], list[Any]]


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[Callable[[str], Query]]:
    """Starts a Prometheus that scrapes an address; gives its instant queries."""
    program = shutil.which("prometheus")
    if program is None:
        assert os.environ.get("CI") != "true", "apt-get install prometheus"
        pytest.skip("no prometheus: apt-get install prometheus")
    started: list[subprocess.Popen[bytes]] = []

    def start(address: str) -> Query:
        config = tmp_path / "prometheus.yml"
        config.write_text(CONFIG.replace("ADDRESS", address))
        own = f"127.0.0.1:{free_port()}"
        files = (f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'series'}")
        with open(tmp_path / "prometheus.log", "wb") as out:
            command = [program, *files, f"--web.listen-address={own}"]
            started.append(subprocess.Popen(command, stdout=out, stderr=out))

        def query(text: str) -> list[Any]:
            url = f"http://{own}/api/v1/query?{urllib.parse.urlencode({'query': text})}"
            try:
                with urllib.request.urlopen(url, timeout=10) as answer:
                    found: list[Any] = json.loads(answer.read())["data"]["result"]
            except OSError:
                return []  # it starts
            return found

        return query

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_prometheus_has_the_series_of_a_broker(
    broker_factory: BrokerFactory, prometheus: Callable[[str], Query]
) -> None:
    node = broker_factory()
    create_topic(node, "scraped", 1)
    query = prometheus(base(node).removeprefix("http://"))
    eventually(lambda: [one["value"][1] for one in query('up{job="kbroker"}')] == ["1"])
    produce(node, "scraped", 30)
    end = 'sum(kafka_log_log_logendoffset{topic="scraped"})'
    eventually(lambda: [one["value"][1] for one in query(end)] == ["30"])

"""A real Prometheus that scrapes brokers."""

import json
import os
import re
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.peer.kbroker_node import KBroker
from tests.peer.ports import free_port
from tests.peer.scrape import base
from tuning.dashboards import recording
from tuning.dashboards.alerts import ALERTS
from tuning.dashboards.alerts import page as rules

CONFIG = """
global: {{scrape_interval: {interval}s, evaluation_interval: {interval}s}}
rule_files: [alerts.yml, recording.yml]
scrape_configs:
  - job_name: kbroker
    static_configs: [{{targets: {targets}}}]
"""


class Prometheus:
    """One that scrapes brokers each second, or so many. impatient: alerts fire as soon as their
    expression holds."""

    def __init__(self, folder: Path, *brokers: KBroker, impatient: bool = False, interval_s: int = 1) -> None:
        program = shutil.which("prometheus")
        if program is None:
            if os.environ.get("CI") == "true":
                pytest.fail("prometheus is missing: apt-get install prometheus")
            pytest.skip("prometheus is missing: apt-get install prometheus")
        self._address = f"127.0.0.1:{free_port()}"
        text = re.sub(r"^( +for:) \d+m$", r"\1 0s", rules(), flags=re.MULTILINE) if impatient else rules()
        (folder / "alerts.yml").write_text(text)
        (folder / "recording.yml").write_text(recording.page())
        config = folder / "prometheus.yml"
        targets = [instance(broker) for broker in brokers]
        config.write_text(CONFIG.format(targets=json.dumps(targets), interval=interval_s))
        self._log = (folder / "prometheus.log").open("wb")
        self._process = subprocess.Popen(
            [program, f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}",
             f"--web.listen-address={self._address}"],
            stdout=self._log, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def ask(self, path: str, **query: str) -> dict[str, object]:
        """The data of an answer of its API."""
        url = f"http://{self._address}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=60) as answer:
            found: dict[str, object] = json.load(answer)["data"]
            return found

    def values(self, expression: str) -> list[str]:
        """What an expression has now, a value for each series."""
        found = self.ask("query", query=expression)["result"]
        assert isinstance(found, list)
        return [one["value"][1] for one in found]

    def has(self, expression: str) -> bool:
        """Whether an expression has a value now."""
        return bool(self.ask("query", query=expression)["result"])

    def firing(self, broker: KBroker | None = None) -> set[str]:
        """Names of the alerts that fire, of all brokers or of one."""
        alerts = self.ask("alerts")["alerts"]
        assert isinstance(alerts, list)
        return {
            alert["labels"]["alertname"]
            for alert in alerts
            if alert["state"] == "firing"
            and (broker is None or alert["labels"].get("instance") == instance(broker))
        }

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:  # it writes its series to a slow disk
            self._process.kill()
            self._process.wait()
        self._log.close()


def instance(broker: KBroker) -> str:
    """The label of a broker's series."""
    return base(broker).removeprefix("http://")


def until(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if condition():
                return True
        except OSError:  # it is not listening yet
            pass
        time.sleep(0.5)
    return False


def expression_of(name: str, *replaced: tuple[str, str]) -> str:
    """The expression of an alert, with shorter times."""
    found = next(alert for alert in ALERTS if alert.name == name).expression
    for before, after in replaced:
        assert before in found
        found = found.replace(before, after)
    return found

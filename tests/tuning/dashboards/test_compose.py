"""Prometheus and Grafana in containers: every file that is mounted is there, and nothing listens
beyond loopback."""

import shutil
from pathlib import Path
from typing import Any

import msgspec

from kbroker.config.broker import BROKER
from tests.tuning.dashboards.rule_tests import run
from tuning.dashboards import dashboard

FOLDER = Path(dashboard.__file__).parent


def read(name: str) -> Any:
    return msgspec.yaml.decode((FOLDER / name).read_bytes())


def mounts(service: dict[str, Any]) -> dict[str, str]:
    """What a container sees of this folder: by the place in the container."""
    found = (volume.split(":")[:2] for volume in service["volumes"])
    return {inside: source for source, inside in found if source.startswith(".")}


def test_every_mounted_file_is_there_and_settings_lead_to_mounted_places() -> None:
    services = read("compose.yaml")["services"]
    for service in services.values():
        for inside, source in mounts(service).items():
            assert (FOLDER / source).exists(), f"{inside}: {source}"
    prometheus, grafana = (mounts(services[name]) for name in ("prometheus", "grafana"))
    for rules in read("prometheus.yml")["rule_files"]:
        assert f"/etc/prometheus/{rules}" in prometheus
    (provider,) = read("grafana/dashboards.yml")["providers"]
    assert grafana[provider["options"]["path"]] == "."
    home = services["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home.startswith("/dashboards/")
    assert (FOLDER / home.removeprefix("/dashboards/")).exists()


def test_nothing_listens_beyond_loopback() -> None:
    services = read("compose.yaml")["services"]
    assert all("ports" not in service for service in services.values())
    listen = "--web.listen-address=127.0.0.1:9090"
    assert listen in services["prometheus"]["command"]
    assert services["grafana"]["environment"]["GF_SERVER_HTTP_ADDR"] == "127.0.0.1"
    (source,) = read("grafana/source.yml")["datasources"]
    assert source["url"] == f"http://{listen.partition('=')[2]}"
    assert source["isDefault"]


def test_the_scrape_job_asks_where_a_broker_answers_and_is_valid(promtool: str, tmp_path: Path) -> None:
    (job,) = read("prometheus.yml")["scrape_configs"]
    assert job["static_configs"] == [{"targets": [BROKER["kbroker.http.listen"].default]}]
    for name in ("prometheus.yml", "alerts.yml", "recording.yml"):
        shutil.copy(FOLDER / name, tmp_path)
    assert run(promtool, "check", "config", str(tmp_path / "prometheus.yml")) == ""

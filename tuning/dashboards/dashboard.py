"""The whole dashboard, kbroker.json: import it in Grafana 9 or later and choose the Prometheus data source."""

import json

from tuning.dashboards.panel import COLUMNS, HEIGHT, WIDTH, row
from tuning.dashboards.tables import ROOMS

SCHEMA = 39


def page() -> str:
    """The file's text."""
    return json.dumps(dashboard(), indent=1) + "\n"


def dashboard() -> dict[str, object]:
    """Grafana's classic model: one version for all, where the newer one is not taken by older servers."""
    return {
        "uid": "kbroker",
        "title": "kbroker",
        "tags": ["kbroker", "kafka"],
        "schemaVersion": SCHEMA,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [_source(), _instance()]},
        "annotations": {"list": []},
        "panels": _panels(),
    }


def _panels() -> list[dict[str, object]]:
    """Three in a line below the headline of their room."""
    placed: list[dict[str, object]] = []
    y = 0
    for title, panels in ROOMS.items():
        placed.append(row(title, len(placed) + 1, y))
        y += 1
        for at, panel in enumerate(panels):
            column = at * WIDTH % COLUMNS
            line = at * WIDTH // COLUMNS
            placed.append(panel.as_json(len(placed) + 1, column, y + line * HEIGHT))
        y += -(-len(panels) * WIDTH // COLUMNS) * HEIGHT
    return placed


def _source() -> dict[str, object]:
    return {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}


def _instance() -> dict[str, object]:
    return {
        "name": "instance",
        "label": "Broker",
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "${source}"},
        "query": {"query": "label_values(kbroker_info, instance)", "refId": "A"},
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "current": {"text": "All", "value": "$__all"},
    }

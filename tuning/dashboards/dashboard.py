"""Dashboards for Grafana 9 or later: kbroker.json has all, and each subject has its own; choose the
Prometheus data source after the import."""

import json
from functools import partial

from tuning.dashboards.panel import COLUMNS, GROUP, HEIGHT, TOPIC, WIDTH, Panel, row, whole
from tuning.dashboards.tables import ROOMS

SCHEMA = 39
Rooms = dict[str, tuple[Panel, ...]]


def page() -> str:
    """The text of kbroker.json."""
    return json.dumps(dashboard("kbroker", ROOMS), indent=1) + "\n"


def subject_page(subject: str) -> str:
    """The text of a subject's file."""
    return json.dumps(dashboard(f"kbroker: {subject}", {subject: ROOMS[subject]}), indent=1) + "\n"


def file_name(title: str) -> str:
    """File name of a dashboard or a subject, without its ending."""
    return title.lower().replace(": ", "-").replace(" ", "-")


overview = partial(subject_page, "Overview")
requests = partial(subject_page, "Requests")
topics = partial(subject_page, "Topics")
logs = partial(subject_page, "Logs and page cache")
network = partial(subject_page, "Network")
clients = partial(subject_page, "Clients")
groups = partial(subject_page, "Groups")
processes = partial(subject_page, "Processes and host")


def dashboard(title: str, rooms: Rooms) -> dict[str, object]:
    """Grafana's classic model, because older servers do not accept the newer one."""
    return {
        "uid": file_name(title)[:40],
        "title": title,
        "tags": ["kbroker", "kafka"],
        "schemaVersion": SCHEMA,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [_source(), *_variables(rooms)]},
        "annotations": {"list": []},
        "panels": _panels(rooms),
    }


def _variables(rooms: Rooms) -> list[dict[str, object]]:
    """The variables of the broker, and others that expressions use."""
    text = " ".join(
        whole(expression) for panels in rooms.values() for panel in panels for expression, _ in panel.lines
    )
    found = [_variable("instance", "Broker", "label_values(kbroker_info, instance)")]
    if TOPIC in text:
        found.append(_variable("topic", "Topic", "label_values(kbroker_topic_partitions, topic)"))
    if GROUP in text:
        found.append(_variable("group", "Group", "label_values(kbroker_group_members, group)"))
    return found


def _panels(rooms: Rooms) -> list[dict[str, object]]:
    """Three in a line below the headline of their room."""
    placed: list[dict[str, object]] = []
    y = 0
    for title, panels in rooms.items():
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


def _variable(name: str, label: str, query: str) -> dict[str, object]:
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "${source}"},
        "query": {"query": query, "refId": "A"},
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }

"""The tuner's findings about the host, the settings and the running broker."""

from typing import Any

from kbroker.config.broker import BrokerConfig
from kbroker.config.setting import ConfigError
from kbroker.http.console.request import Request
from kbroker.http.console.schema import INT, TEXT, fields, many, maybe
from kbroker.http.console.views.settings import BROKER_RESOURCE, SOURCES, settings_of

FINDING = fields(
    knob=TEXT,
    severity=TEXT,
    now=TEXT,
    proposed=TEXT,
    why=TEXT,
    source=TEXT,
    remedy=maybe(fields(means=TEXT, apply=TEXT, undo=TEXT)),
)
HOST = fields(checked_ms=INT, workload=many(TEXT), findings=many(FINDING))
OWN, CLUSTER = SOURCES[2], SOURCES[3]


def host(request: Request) -> dict[str, Any]:
    """All findings, the worst first. They name settings, so a user without the permission to
    describe these gets none."""
    rows = settings_of(request, BROKER_RESOURCE, str(request.config.node_id))
    found = request.tuner.checked(effective(request.config, rows))
    return {"checked_ms": found.at_ms, "workload": list(found.workload), "findings": list(found.findings)}


def effective(config: BrokerConfig, rows: list[dict[str, Any]]) -> BrokerConfig:
    """The settings as they are now: those of the start, with later changes. The tuner gets no
    passwords."""
    layers: dict[str, dict[str, str]] = {OWN: {}, CLUSTER: {}}
    for row in rows:
        if row["source"] in layers and row["value"] is not None:
            layers[row["source"]][row["name"]] = row["value"]
    try:
        return config.with_dynamic(cluster=layers[CLUSTER], own=layers[OWN])
    except ConfigError:  # a change that is only valid together with a hidden value
        return config

"""The overview, its history, and the broker's identity."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from kbroker import __version__
from kbroker.config.broker import BrokerConfig
from kbroker.http.console.request import Request
from kbroker.http.console.schema import BOOL, INT, NUMBER, NUMBERS, TEXT, Schema, fields, many, maybe
from kbroker.http.console.visible import Visible

SHOWN = 8
GROUPS = 10
ASKED = 32
"""Busiest topics that are requested: the client may see some of them."""

STAGE = fields(count=INT, p50_ms=NUMBER, p99_ms=NUMBER)
STAGES: Schema = {"type": "object", "additionalProperties": STAGE}
LOG_DIR = fields(path=TEXT, online=BOOL, size_bytes=maybe(INT), free_bytes=maybe(INT), full_in_s=maybe(INT))
SAMPLE = fields(
    at_ms=INT,
    ready=BOOL,
    problems=many(TEXT),
    degraded=many(TEXT),
    topic_count=INT,
    partition_count=INT,
    connections=INT,
    deaths=INT,
    in_bytes=NUMBER,
    in_records=NUMBER,
    out_bytes=NUMBER,
    requests=NUMBER,
    errors=NUMBER,
    cold_share=NUMBER,
    lag=INT,
    group_count=INT,
    group_lag=NUMBERS,
    stages=fields(produce=STAGES, fetch=STAGES),
    disks=many(
        fields(
            name=TEXT,
            read_bytes=NUMBER,
            write_bytes=NUMBER,
            operations=NUMBER,
            await_ms=NUMBER,
            busy=NUMBER,
            used=maybe(NUMBER),
        )
    ),
    nics=many(fields(name=TEXT, in_bytes=NUMBER, out_bytes=NUMBER, speed_bytes=maybe(INT))),
    processes=many(fields(name=TEXT, cpu=NUMBER, polling=NUMBER, memory_bytes=INT)),
    log_dirs=many(LOG_DIR),
    memory=NUMBERS,
    limits=NUMBERS,
    top_topics=many(fields(topic=TEXT, in_bytes=NUMBER, out_bytes=NUMBER, in_records=NUMBER)),
)
POINT: Schema = {"type": "object", "additionalProperties": maybe(NUMBER)}
OVERVIEW = fields(
    version=TEXT, cluster_id=TEXT, node_id=INT, bootstrap=many(TEXT), sample=SAMPLE, history=many(POINT)
)


def addresses(config: BrokerConfig, ports: Mapping[str, int]) -> list[str]:
    """NAME://host:port of each listener. ports: those that were bound."""
    return [
        str(replace(endpoint, port=ports.get(endpoint.listener, endpoint.port)))
        for endpoint in config.listeners
    ]


def overview(request: Request) -> dict[str, Any]:
    """The broker, its last sample and the samples before."""
    sample = request.live.latest()
    visible = Visible(request.caller, request.config)
    history = request.live.history()
    lags = _lags_in(sample, visible)
    if lags != sample["topic_lag"]:  # the charted lag is that of all topics
        history = [point | {"lag": None} for point in history]
    return {
        "version": __version__,
        "cluster_id": request.cluster_id,
        "node_id": request.config.node_id,
        "bootstrap": addresses(request.config, request.ports),
        "sample": _shown(sample, visible, lags),
        "history": history,
    }


def shown(sample: dict[str, Any], visible: Visible) -> dict[str, Any]:
    """A sample as clients receive it, with only the busiest topics and the groups with the largest
    lag, names that the client may see, and the lag in topics that it may see."""
    return _shown(sample, visible, _lags_in(sample, visible))


def _shown(sample: dict[str, Any], visible: Visible, lags: dict[str, dict[str, int]]) -> dict[str, Any]:
    topics = sorted(sample["topics"].items(), key=lambda item: -(item[1]["in_bytes"] + item[1]["out_bytes"]))
    seen = visible.topics([name for name, _ in topics[:ASKED]])[:SHOWN]
    busy = [
        {
            "topic": name,
            **{key: sample["topics"][name][key] for key in ("in_bytes", "out_bytes", "in_records")},
        }
        for name in seen
    ]
    lag = {group: sum(each.values()) for group, each in lags.items()}
    largest = sorted(lag.items(), key=lambda item: -item[1])[:GROUPS]
    kept = {key: value for key, value in sample.items() if key not in ("topics", "topic_lag")}
    found = {"lag": sum(lag.values()), "group_count": len(lag), "group_lag": dict(largest)}
    return kept | {"top_topics": busy} | found


def _lags_in(sample: dict[str, Any], visible: Visible) -> dict[str, dict[str, int]]:
    """Lag of the groups that the client may see, in the topics that it may see."""
    lags: dict[str, dict[str, int]] = sample["topic_lag"]
    seen = set(visible.topics([topic for topics in lags.values() for topic in topics]))
    return {
        group: {topic: lag for topic, lag in lags[group].items() if topic in seen}
        for group in visible.groups(list(lags))
    }

"""Prometheus' recording rules, recording.yml: the series of the broker under the names of exporters
other than Strimzi's, so that dashboards made for those work.

The broker's own Kafka names are those of Strimzi's rules for the JMX exporter. Confluent's rules
keep the names of the MBeans (`BytesInPerSec` is `bytesinpersec`); others add the attribute's name
as well (`bytesinpersec_count`, `totaltimems_99thpercentile`).
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Rule:
    """record: the name of the new series."""

    record: str
    expression: str


TOPICS: Final = "kafka_server_brokertopicmetrics_"
REQUESTS: Final = "kafka_network_requestmetrics_"
REPLICAS: Final = "kafka_server_replicamanager_"
ELECTIONS: Final = "kafka_controller_controllerstats_"
SESSIONS: Final = "kafka_server_fetchsessioncache_"
SOCKETS: Final = "kafka_server_socket_server_metrics_"
RATED: Final = (TOPICS + "bytesin", TOPICS + "bytesout", TOPICS + "messagesin")
COUNTERS: Final = (
    *RATED,
    TOPICS + "bytesrejected",
    TOPICS + "totalproducerequests",
    TOPICS + "totalfetchrequests",
    TOPICS + "failedproducerequests",
    TOPICS + "failedfetchrequests",
    REQUESTS + "requests",
    REQUESTS + "errors",
    REPLICAS + "isrshrinks",
    REPLICAS + "isrexpands",
    ELECTIONS + "uncleanleaderelections",
    SESSIONS + "incrementalfetchsessionevictions",
)
TIMES: Final = ("totaltimems", "requestqueuetimems", "localtimems", "remotetimems", "responsequeuetimems",
                "responsesendtimems")  # fmt: skip
QUANTILES: Final = {"50": "0.50", "75": "0.75", "95": "0.95", "98": "0.98", "99": "0.99", "999": "0.999"}


def renamed(expression: str, labels: dict[str, str], *kept: str) -> str:
    """A PromQL expression for the same samples with renamed labels. kept: further labels; all other
    labels but instance and job are dropped."""
    for old, new in labels.items():
        expression = f'label_replace({expression}, "{new}", "$1", "{old}", "(.*)")'
    return f"sum by ({', '.join(('instance', 'job', *kept, *labels.values()))}) ({expression})"


CONFLUENT: Final = (
    *(Rule(f"{name}persec", f"{name}_total") for name in COUNTERS),
    Rule("kafka_network_socketserver_networkprocessoravgidlepercent",
         "kafka_network_socketserver_networkprocessoravgidle_percent"),
    Rule("kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_total",
         "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent"),
    Rule("kafka_server_socketservermetrics_connection_count",
         renamed(SOCKETS + "connection_count", {"networkProcessor": "network_processor"}, "listener")),
    Rule("kafka_server_socketservermetrics_connections",
         renamed(SOCKETS + "connections_software", {"clientSoftwareName": "client_software_name",
                                                    "clientSoftwareVersion": "client_software_version"}, "listener")),
    *(Rule(f"kafka_server_{resource.lower()}_{kind}",
           renamed(f'kafka_server_quota_{kind}{{resource="{resource}"}}', {"clientId": "client_id"}, "user"))
      for resource, kinds in (("Produce", ("byte_rate", "throttle_time")), ("Fetch", ("byte_rate", "throttle_time")),
                              ("Request", ("request_time", "throttle_time")))
      for kind in kinds),
)  # fmt: skip
ATTRIBUTES: Final = (
    *(Rule(f"{name}persec_count", f"{name}_total") for name in COUNTERS),
    *(Rule(f"{name}persec_oneminuterate", f"rate({name}_total[1m])") for name in RATED),
    *(Rule(f"{REQUESTS}{name}_{shown}thpercentile",
           f'sum without (quantile) ({REQUESTS}{name}{{quantile="{quantile}"}})')
      for name in TIMES for shown, quantile in QUANTILES.items()),
)  # fmt: skip
GROUPS: Final = {"kafka-confluent": CONFLUENT, "kafka-attributes": ATTRIBUTES}


def page() -> str:
    """The file's text; strings are quoted as JSON, which YAML reads."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Generated from tuning/dashboards/recording.py by make docs; do not edit."
    yield "groups:"
    for group, rules in GROUPS.items():
        yield f"  - name: {group}"
        yield "    rules:"
        for rule in rules:
            yield f"      - record: {rule.record}"
            yield f"        expr: {json.dumps(rule.expression)}"

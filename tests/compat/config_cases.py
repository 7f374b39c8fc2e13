"""Requests about configs, answered as Apache Kafka 4.3.1 does. They build on the topics of
admin_cases, and on one another."""

from typing import Any

from kbroker.protocol.api_keys import ApiKey as K
from kbroker.protocol.messages import alter_configs as ac
from kbroker.protocol.messages import describe_configs as dcf
from kbroker.protocol.messages import incremental_alter_configs as iac
from kbroker.protocol.messages import list_config_resources as lcr
from tests.compat.raw import Case, case, later

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


def described(
    kind: int, name: str, keys: list[str] | None = None, **more: bool
) -> dcf.DescribeConfigsRequest:
    return dcf.DescribeConfigsRequest([dcf.DescribeConfigsResource(kind, name, keys)], **more)


def altered(kind: int, name: str, *changes: tuple[str, int, str | None], validate_only: bool = False) -> Any:
    configs = [iac.AlterableConfig(*change) for change in changes]
    return iac.IncrementalAlterConfigsRequest([iac.AlterConfigsResource(kind, name, configs)], validate_only)


SET, DELETE, APPEND, SUBTRACT = range(4)
TEXTS = frozenset({"results.configs.documentation"})
SOME = [
    "retention.ms",
    "cleanup.policy",
    "segment.bytes",
    "max.message.bytes",
    "compression.type",
    "flush.ms",
    "min.insync.replicas",
]
SYNONYMS = {"include_synonyms": True}

CONFIGS: list[Case] = [
    case("topic", K.DESCRIBE_CONFIGS, (1, 4), described(TOPIC, "configured", SOME, **SYNONYMS)),
    case("absent topic", K.DESCRIBE_CONFIGS, (1, 4), described(TOPIC, "absent")),
    case("bad topic", K.DESCRIBE_CONFIGS, (1, 4), described(TOPIC, "bad name"), same_text=True),
    case("broker keys", K.DESCRIBE_CONFIGS, (1, 4), described(
        BROKER, "1", ["log.retention.hours", "log.retention.ms", "num.partitions",
                      "message.max.bytes", "compression.type", "log.roll.ms", "min.insync.replicas"], **SYNONYMS)),
    case("other keys", K.DESCRIBE_CONFIGS, (1, 4), dcf.DescribeConfigsRequest([
        dcf.DescribeConfigsResource(TOPIC, "configured", [key]) for key in ("retention.ms", "flush.ms")])),
    case("other broker", K.DESCRIBE_CONFIGS, (1, 4), described(BROKER, "7"), same_text=True),
    case("no broker", K.DESCRIBE_CONFIGS, (1, 4), described(BROKER, "x"), same_text=True),
    case("loggers of none", K.DESCRIBE_CONFIGS, (1, 4), described(LOGGER, ""), same_text=True),
    case("loggers of another", K.DESCRIBE_CONFIGS, (1, 4), described(LOGGER, "9"), same_text=True),
    case("metrics without name", K.DESCRIBE_CONFIGS, (1, 4), described(METRICS, ""), same_text=True),
    case("group without name", K.DESCRIBE_CONFIGS, (1, 4), described(GROUP, ""), same_text=True),
    case("unknown type", K.DESCRIBE_CONFIGS, (1, 4), described(99, "x"), same_text=True),
    case("set topic", K.INCREMENTAL_ALTER_CONFIGS, (0, 1), altered(TOPIC, "one", ("retention.ms", SET, "777"))),
    case("append to topic", K.INCREMENTAL_ALTER_CONFIGS, (1, 1),
         altered(TOPIC, "one", ("cleanup.policy", APPEND, "compact"))),
    later("after", K.DESCRIBE_CONFIGS, (4, 4), described(TOPIC, "one", SOME, **SYNONYMS)),
    case("set and delete", K.INCREMENTAL_ALTER_CONFIGS, (1, 1), altered(
        TOPIC, "one", ("retention.ms", DELETE, None), ("cleanup.policy", SUBTRACT, "compact"), ("flush.ms", SET, "9"))),
    later("after that", K.DESCRIBE_CONFIGS, (4, 4), described(TOPIC, "one", SOME, **SYNONYMS)),
    *(
        case(f"alter, refused {number}", K.INCREMENTAL_ALTER_CONFIGS, (0, 1), request, same_text=True)
        for number, request in enumerate((
            *(altered(TOPIC, name, ("retention.ms", SET, "1")) for name in ("absent", "bad name", "")),
            *(altered(TOPIC, "one", one) for one in (
                ("bogus", SET, "1"), ("retention.ms", SET, "x"), ("retention.ms", APPEND, "1"))),
            altered(BROKER, "", ("log.retention.ms", 9, "1")),
            altered(TOPIC, "one", ("retention.ms", SET, None)),
            altered(TOPIC, "one", ("retention.ms", SET, "1"), ("retention.ms", SET, "2")),
            altered(BROKER, "9", ("log.retention.ms", SET, "1")),
            *(altered(BROKER, name, ("log.retention.ms", SET, "1")) for name in (" 1", "0_1", "4294967297")),
            altered(BROKER, "", ("node.id", SET, "1")),
            altered(BROKER, "1", ("log.retention.ms", SET, "x")),
            *(altered(BROKER, "1", (name, SET, "21")) for name in ("metric.reporters", "remote.log.reader.threads", *(
                f"remote.log.manager.{pool}.thread.pool.size" for pool in ("copier", "expiration", "follower")))),
            altered(GROUP, "", ("consumer.session.timeout.ms", SET, "1")),
            altered(METRICS, "", ("interval.ms", SET, "1000")),
            altered(METRICS, "m", ("interval.ms", SET, "1")),
            altered(99, "x", ("a", SET, "b")),
        ))
    ),
    case("twice the same", K.INCREMENTAL_ALTER_CONFIGS, (0, 1), iac.IncrementalAlterConfigsRequest([
        iac.AlterConfigsResource(TOPIC, "one", [iac.AlterableConfig("retention.ms", SET, "1")]),
        iac.AlterConfigsResource(TOPIC, "one", [iac.AlterableConfig("flush.ms", SET, "1")])]), same_text=True),
    case("set cluster", K.INCREMENTAL_ALTER_CONFIGS, (1, 1), altered(BROKER, "", ("log.retention.ms", SET, "123456"))),
    case("replace cluster, refused", K.ALTER_CONFIGS, (0, 2), ac.AlterConfigsRequest([
        ac.AlterConfigsResource(BROKER, "", [ac.AlterableConfig("log.retention.ms", "5")])]), same_text=True),
    case("set broker", K.INCREMENTAL_ALTER_CONFIGS, (1, 1), altered(BROKER, "1", ("log.retention.ms", SET, "654321"))),
    later("layers", K.DESCRIBE_CONFIGS, (4, 4), described(BROKER, "1", ["log.retention.ms"], **SYNONYMS)),
    later("inherited", K.DESCRIBE_CONFIGS, (4, 4), described(TOPIC, "two", ["retention.ms"], **SYNONYMS)),
    later("cluster layer", K.DESCRIBE_CONFIGS, (4, 4), described(BROKER, "", ["log.retention.ms"], **SYNONYMS)),
    case("set broker by another id", K.INCREMENTAL_ALTER_CONFIGS, (1, 1),
         altered(BROKER, "01", ("log.retention.ms", SET, "5"))),
    later("without effect", K.DESCRIBE_CONFIGS, (4, 4), described(BROKER, "1", ["log.retention.ms"], **SYNONYMS)),
    later("of another id", K.DESCRIBE_CONFIGS, (4, 4), described(BROKER, "01", ["log.retention.ms"], **SYNONYMS)),
    case("undo by another id", K.INCREMENTAL_ALTER_CONFIGS, (1, 1),
         altered(BROKER, "01", ("log.retention.ms", DELETE, None))),
    case("undo", K.INCREMENTAL_ALTER_CONFIGS, (1, 1), altered(BROKER, "1", ("log.retention.ms", DELETE, None))),
    case("undo all", K.INCREMENTAL_ALTER_CONFIGS, (1, 1), altered(BROKER, "", ("log.retention.ms", DELETE, None))),
    case("set metrics", K.INCREMENTAL_ALTER_CONFIGS, (1, 1), altered(
        METRICS, "subscription", ("interval.ms", SET, "1000"), ("metrics", SET, "a.b,c"))),
    case("set group", K.INCREMENTAL_ALTER_CONFIGS, (1, 1),
         altered(GROUP, "g", ("consumer.session.timeout.ms", SET, "50000"))),
    later("group", K.DESCRIBE_CONFIGS, (1, 4), described(GROUP, "g", ["consumer.session.timeout.ms"], **SYNONYMS)),
    later("metrics", K.DESCRIBE_CONFIGS, (1, 4), described(METRICS, "subscription", ["interval.ms"], **SYNONYMS)),
    later("resources v0", K.LIST_CONFIG_RESOURCES, (0, 0), lcr.ListConfigResourcesRequest()),
    *(
        later(f"resources {kinds}", K.LIST_CONFIG_RESOURCES, (1, 1), lcr.ListConfigResourcesRequest(kinds))
        for kinds in ([], [TOPIC], [BROKER], [LOGGER], [METRICS], [GROUP], [GROUP, METRICS], [99], [TOPIC, 99])
    ),
    case("replace", K.ALTER_CONFIGS, (0, 2), ac.AlterConfigsRequest([ac.AlterConfigsResource(
        TOPIC, "one", [ac.AlterableConfig("retention.ms", "888")])])),
    later("replaced", K.DESCRIBE_CONFIGS, (4, 4), described(TOPIC, "one", SOME, **SYNONYMS)),
    case("replace, refused", K.ALTER_CONFIGS, (0, 2), ac.AlterConfigsRequest([
        ac.AlterConfigsResource(TOPIC, "one", [ac.AlterableConfig("retention.ms", None)]),
        ac.AlterConfigsResource(TOPIC, "absent", [ac.AlterableConfig("retention.ms", "1")]),
        ac.AlterConfigsResource(LOGGER, "1", [ac.AlterableConfig("root", "INFO")]),
        ac.AlterConfigsResource(BROKER, "x", [])]), same_text=True),
]  # fmt: skip

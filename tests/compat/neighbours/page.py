"""Runs the tests of neighbours and writes docs/compatibility.md:
`python -m tests.compat.neighbours.page [NAME...]`.

Rows of names that are not given stay as they are."""

import re
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from tests.compat.neighbours.building import HERE
from tests.compat.neighbours.npm_versions import KAFKAJS, KAFKAJS_REGISTRY, PLATFORMATIC
from tests.compat.neighbours.suites import SUITES
from tests.peer.artifacts import CACHE, KAFKA_VERSION, POMS, ROOT
from tests.peer.postgres import programs

PAGE = ROOT / "docs" / "compatibility.md"
HEAD = """\
# Compatibility: clients, versions, dates

Look up which version of a client passed its tests against kbroker, when, and with which command.

Written by `python -m tests.compat.neighbours.page [NAME...]`, which runs the commands; do not edit.
The result is that of the last run: passed, skipped (the command prints the reason), or failed.

| neighbour | version | when | result | command |
|---|---|---|---|---|
"""
TESTS = "python -m pytest -q "


def _kcat() -> str:
    reported = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"Version (\S+) .*librdkafka (\S+)", reported)
    return f"{found[1]}, librdkafka {found[2]}" if found else "unknown"


def _named_in(path: Path, pattern: str) -> str:
    """A version that a file names."""
    found = re.search(pattern, path.read_text())
    return found[1] if found else "unknown"


def _prometheus() -> str:
    reported = subprocess.run(["prometheus", "--version"], capture_output=True, text=True, check=True)
    return (reported.stdout + reported.stderr).split()[2]


def _debezium() -> str:
    """The version in the pom, and that of PostgreSQL."""
    postgres = subprocess.run([programs() / "postgres", "-V"], capture_output=True, text=True, check=True)
    return f"{_in_pom('debezium.xml', 'postgres')()}, PostgreSQL {postgres.stdout.split()[2]}"


def _jdbc() -> str:
    """Kafka's version, and those of the drivers."""
    drivers = (f"{name} {_in_pom('jdbc.xml', name)()}" for name in ("sqlite-jdbc", "postgresql"))
    return ", ".join((KAFKA_VERSION, *drivers))


def _registry_client() -> str:
    """The version that Flink's jar names, if it is there, and that of the jar."""
    flink = f"Flink's Avro format {_in_pom('registry-client.xml', 'confluent-registry')()}"
    for jar in (CACHE / "registry-client").glob("flink-*.jar"):
        with zipfile.ZipFile(jar) as files:
            notice = files.read("META-INF/NOTICE").decode()
        if (found := re.search(r"kafka-schema-registry-client:(\S+)", notice)) is not None:
            return f"{found[1]}, in {flink}"
    return flink


def _in_pom(pom: str, artifact: str) -> Callable[[], str]:
    """The version of an artifact in a pom."""
    return lambda: _named_in(POMS / pom, rf"{artifact}</artifactId><version>(\S+?)<")


def _of(package: str) -> Callable[[], str]:
    return lambda: version(package)


def _in(file: str, pattern: str) -> Callable[[], str]:
    return lambda: _named_in(HERE / file, pattern)


def _npm(package: str) -> Callable[[], str]:
    return lambda: package.rpartition("@")[2]


def _kafka() -> str:
    return KAFKA_VERSION


def _releases() -> str:
    return ", ".join(
        [KAFKA_VERSION, *sorted(pom.stem.removeprefix("kafka-") for pom in POMS.glob("kafka-*"))]
    )


GROUPS = "tests/compat/test_group_clients.py -k "
OTHERS = "tests/compat/neighbours/test_other_languages.py -k "
REGISTRY = "tests/compat/neighbours/test_registry_in_other_languages.py -k "
STREAMS = "tests/crash/test_streams.py -k a_kill_of_any_process"
# name, as headings of docs/neighbours.md have it: (its version, the tests)
NEIGHBOURS: dict[str, tuple[Callable[[], str], str]] = {
    "confluent-kafka": (_of("confluent-kafka"), f"{GROUPS}share_and and confluent"),
    "kafka-python": (_of("kafka-python"), f"{GROUPS}share_and and kafka-python"),
    "aiokafka": (_of("aiokafka"), f"{GROUPS}share_and and aiokafka"),
    "Java clients": (_kafka, f"{GROUPS}java_consumer"),
    "kcat": (_kcat, "tests/compat/clients/test_kcat.py"),
    "kafkajs": (_npm(KAFKAJS), f"{OTHERS}kafkajs"),
    "@platformatic/kafka": (_npm(PLATFORMATIC), f"{OTHERS}platformatic"),
    "franz-go": (_in("franz_go/go.mod", r"franz-go (v\S+)"), f"{OTHERS}franz"),
    "sarama": (_in("sarama/go.mod", r"sarama (v\S+)"), f"{OTHERS}sarama"),
    "rdkafka for Rust": (_in("rdkafka/Cargo.toml", r'"=(\S+)"'), f"{OTHERS}rust"),
    "Serializers of confluent-kafka": (
        _of("confluent-kafka"),
        "tests/compat/test_registry_clients.py -k serializers",
    ),
    "@kafkajs/confluent-schema-registry": (_npm(KAFKAJS_REGISTRY), f"{REGISTRY}kafkajs"),
    "Confluent's registry client": (_registry_client, f"{REGISTRY}java"),
    "franz-go's sr": (_in("franz_registry/go.mod", r"pkg/sr (v\S+)"), f"{REGISTRY}franz"),
    "Kafka Connect": (_kafka, "tests/compat/test_connect.py"),
    "Exactly once sources of Kafka Connect": (_kafka, "tests/compat/test_connect_kills.py"),
    "Debezium": (_debezium, "tests/compat/test_debezium.py"),
    "A JDBC source of Kafka Connect": (_jdbc, "tests/compat/test_jdbc_rows.py"),
    "Kafka Streams": (_kafka, STREAMS),
    "Interactive queries of Kafka Streams": (_kafka, "tests/compat/test_streams_queries.py"),
    "MirrorMaker 2": (_kafka, "tests/compat/test_move_live.py"),
    "Log directories of Apache Kafka": (_releases, "tests/compat/test_move_out.py"),
    "Spark": (_of("pyspark"), "tests/compat/neighbours/test_spark.py"),
    "Flink": (_in_pom("flink.xml", "flink-streaming-java"), "tests/compat/neighbours/test_flink.py"),
    "Prometheus": (_prometheus, "tests/compat/neighbours/test_prometheus.py"),
}


def run(tests: str) -> str:
    """One word of pytest's last line: passed, skipped or failed."""
    file, option, names = tests.partition(" -k ")
    words = [sys.executable, "-m", "pytest", "-q", file, *([option.strip(), names] if names else [])]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    last = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else ""
    if done.returncode or "passed" not in last:
        sys.stderr.write(done.stdout[-4000:])
        return "skipped" if not done.returncode and "skipped" in last else "failed"
    return "passed"


def rows(page: Path) -> dict[str, str]:
    """The page's rows by name."""
    if not page.exists():
        return {}
    table, _, _ = page.read_text().partition(SUITES.splitlines()[1])
    lines = [line for line in table.splitlines() if line.startswith("| ")]
    return {line.split(" | ")[0].removeprefix("| "): line for line in lines[1:]}


def main(names: list[str]) -> int:
    """Runs the named ones, or all; 1 when one failed."""
    if set(names) - set(NEIGHBOURS):
        sys.stderr.write(f"names: {', '.join(NEIGHBOURS)}\n")
        return 2
    found: dict[str, str] = {}
    failed = False
    for name in names or NEIGHBOURS:
        release, tests = NEIGHBOURS[name]
        result = run(tests)
        failed = failed or result == "failed"
        file, _, chosen = tests.partition(" -k ")
        command = f"{TESTS}{file}" + (f' -k "{chosen}"' if chosen else "")
        day = time.strftime("%Y-%m-%d", time.gmtime())
        found[name] = f"| {name} | {release()} | {day} | {result} | `{command}` |"
        print(found[name], flush=True)
    found = rows(PAGE) | found  # another run may have written meanwhile
    PAGE.write_text(HEAD + "".join(f"{found[name]}\n" for name in NEIGHBOURS if name in found) + SUITES)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

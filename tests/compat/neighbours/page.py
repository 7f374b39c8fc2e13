"""Runs the tests of neighbours and writes docs/compatibility.md:
`python -m tests.compat.neighbours.page [NAME...]`.

Rows of names that are not given stay as they are."""

import re
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from tests.compat.neighbours.building import HERE
from tests.compat.neighbours.npm_versions import KAFKAJS, PLATFORMATIC
from tests.peer.artifacts import KAFKA_VERSION, ROOT

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


def _named_in(path: str, pattern: str) -> str:
    """A version that a file of the neighbours names."""
    found = re.search(pattern, (HERE / path).read_text())
    return found[1] if found else "unknown"


# name: (its version, the tests)
NEIGHBOURS: dict[str, tuple[Callable[[], str], str]] = {
    "confluent-kafka": (
        lambda: version("confluent-kafka"),
        "tests/compat/test_group_clients.py -k share_and and confluent",
    ),
    "kafka-python": (
        lambda: version("kafka-python"),
        "tests/compat/test_group_clients.py -k share_and and kafka-python",
    ),
    "aiokafka": (lambda: version("aiokafka"), "tests/compat/test_group_clients.py -k share_and and aiokafka"),
    "confluent-kafka's serialisers": (
        lambda: version("confluent-kafka"),
        "tests/compat/test_registry_clients.py -k serialisers",
    ),
    "kcat": (_kcat, "tests/compat/clients/test_kcat.py"),
    "kafkajs": (
        lambda: KAFKAJS.partition("@")[2],
        "tests/compat/neighbours/test_other_languages.py -k kafkajs",
    ),
    "@platformatic/kafka": (
        lambda: PLATFORMATIC.rpartition("@")[2],
        "tests/compat/neighbours/test_other_languages.py -k platformatic",
    ),
    "franz-go": (
        lambda: _named_in("franz_go/go.mod", r"franz-go (v\S+)"),
        "tests/compat/neighbours/test_other_languages.py -k franz",
    ),
    "sarama": (
        lambda: _named_in("sarama/go.mod", r"sarama (v\S+)"),
        "tests/compat/neighbours/test_other_languages.py -k sarama",
    ),
    "rdkafka for Rust": (
        lambda: _named_in("rdkafka/Cargo.toml", r'"=(\S+)"'),
        "tests/compat/neighbours/test_other_languages.py -k rust",
    ),
    "Kafka Connect": (lambda: KAFKA_VERSION, "tests/compat/test_connect.py"),
    "MirrorMaker 2": (lambda: KAFKA_VERSION, "tests/compat/test_move_live.py"),
}


def run(tests: str) -> str:
    """One word of pytest's last line: passed, skipped or failed."""
    file, option, names = tests.partition(" -k ")
    words = [sys.executable, "-m", "pytest", "-q", file, *([option.strip(), names] if names else [])]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    last = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else ""
    if done.returncode or "passed" not in last:
        return "skipped" if not done.returncode and "skipped" in last else "failed"
    return "passed"


def rows(page: Path) -> dict[str, str]:
    """The page's rows by name."""
    if not page.exists():
        return {}
    lines = [line for line in page.read_text().splitlines() if line.startswith("| ")]
    return {line.split(" | ")[0].removeprefix("| "): line for line in lines[1:]}


def main(names: list[str]) -> int:
    """Runs the named ones, or all; 1 when one failed."""
    if set(names) - set(NEIGHBOURS):
        sys.stderr.write(f"names: {', '.join(NEIGHBOURS)}\n")
        return 2
    found = rows(PAGE)
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
    PAGE.write_text(HEAD + "".join(f"{found[name]}\n" for name in NEIGHBOURS if name in found))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

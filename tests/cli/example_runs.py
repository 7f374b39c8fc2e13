"""Runs the examples of docs/cli.md and of --help as they are written, in the order of the page.

Each part of the page has a broker, a network and a folder of its own, and a test module of its own:
the processes of a tier share the work.
"""

import os
import re
import sys
from pathlib import Path

import pytest

from kbroker.cli.docs import page
from tests.cli.example_kafka import install
from tests.cli.example_needs import (
    AFTER,
    APART,
    ASK,
    BEFORE,
    CRONTAB,
    DATA,
    FILL,
    FILLED,
    KAFKA,
    LOG_DIRS,
    NOT_RUN,
    PARTS,
    PLAIN,
    RUNS_KAFKA,
    SAYS_OF_THE_HOST,
    SERVE,
    SETTINGS,
    STAYS,
    STDIN,
    STEPS_S,
)
from tests.docs.session import NAMESPACE, PRELUDE, available, placed
from tests.peer.program import run_script

LIMIT_S = 600  # up to 50 commands of a second each, which a busy machine makes five
EXAMPLE_S = 200  # for one that waits for a group, a member or a client
EXAMPLE = re.compile(rb"^@@ \d+$", re.MULTILINE)
STAYS_S = 20  # for a command that prints nothing; a busy machine takes five to begin
HEADING = "## kbroker "
UNTIL_BEGUN = Path(__file__).with_name("until_begun.py")
TYPIST = Path(__file__).with_name("typist.py")
HOSTS = """
printf '127.0.0.1 localhost minio\\n127.0.0.2 kafka1 kafka2\\n' > hosts; mount --bind hosts /etc/hosts"""
BROKER = """
kbroker serve --override log.dirs=${{DIRS:-$DATA}} {settings} \\
  --override authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer \\
  --override super.users=User:ANONYMOUS --override group.initial.rebalance.delay.ms=0 > broker.log 2>&1 &
BROKER=$!
until grep -q 'kbroker ready in' broker.log; do kill -0 $BROKER; sleep 0.1; done
kbroker topics create orders --partitions 3
{fill}
"""
STOP = "kill $BROKER; wait $BROKER"
# Without a setting the log dir is /tmp/kafka-logs, which the host may use; the mount is the
# script's.
DEFAULT_LOG_DIR = """
[ -d /tmp/kafka-logs ] || MADE=/tmp/kafka-logs
mkdir -p default /tmp/kafka-logs; mount --bind default /tmp/kafka-logs"""
NO_DEFAULT_LOG_DIR = "umount /tmp/kafka-logs; ${MADE:+rmdir $MADE}"


def examples_by_command() -> dict[str, list[str]]:
    """The command lines of the page, by the command that has them."""
    found: dict[str, list[str]] = {}
    command, inside = "", False
    for line in page().splitlines():
        if line.startswith(HEADING):
            command = line.removeprefix(HEADING)
        if line == "Examples:":
            inside = True
        elif line and not line.startswith("    "):
            inside = False
        elif inside and line and not line.strip().startswith("#"):
            found.setdefault(command, []).append(line.strip())
    return found


def examples_of(part: str) -> list[str]:
    """The examples that a part runs, in their order; those of AFTER are the last."""
    found = [
        line
        for name, lines in examples_by_command().items()
        for line in lines
        if runs(line) and (first(APART, line) or _part(name)) == part
    ]
    return sorted(found, key=lambda line: line.startswith(AFTER))


def _part(name: str) -> str:
    """Of those examples of a command that are not apart."""
    return next(part for part, commands in PARTS.items() if name in commands)


def runs(line: str) -> bool:
    """Whether a test here runs the example."""
    return line.startswith("echo ") or not first(NOT_RUN, line)


def first(table: dict[str, str], line: str) -> str:
    """The entry with the longest beginning of this line; empty without one."""
    return table[max(found, key=len)] if (found := [key for key in table if line.startswith(key)]) else ""


def command(line: str, folder: Path) -> str:
    """How the script runs an example."""
    words = placed(line, folder)
    if line in STAYS:
        return f"{sys.executable} {UNTIL_BEGUN} {STAYS_S} {words}"
    if line in ASK:
        return f"{sys.executable} {TYPIST} '{words}' {ASK[line]}"
    if line.startswith(SERVE):
        return f"cat > .serve.sh <<< '{words}'\nbegin .serve.sh 'kbroker ready in'"
    if line.startswith(KAFKA):
        return RUNS_KAFKA.format(words=words, filled=FILLED)
    if line.startswith(CRONTAB):
        return f"sh -c '{words.removeprefix(CRONTAB).strip()}'"
    if given := first(STDIN, line):
        return f"{words.partition(' #')[0]} {given}"
    return f"{words} || [ $? = 1 ]" if line.startswith(SAYS_OF_THE_HOST) else words


def script(part: str, lines: list[str], folder: Path, programs: str = "") -> str:
    """The script of a part. programs: its text that brings Apache Kafka."""
    parts = [PRELUDE.format(python=sys.executable, programs=Path(sys.executable).parent), HOSTS, programs]
    parts += [f"DATA={placed(DATA[part], folder)}"] if part in DATA else []
    parts += [f"DIRS={placed(LOG_DIRS.get(part, ''), folder)}"]
    parts += [placed(BROKER.format(settings=SETTINGS.get(part, PLAIN), fill=FILL), folder)]
    begun: set[str] = set()
    stopped = False
    for number, line in enumerate(lines):
        parts.append(f"echo '@@ {number}'")
        if line.startswith(AFTER) and not stopped:
            stopped = True
            parts += [STOP, DEFAULT_LOG_DIR]
        before = first(BEFORE, line)
        if before and (key := f"{before} {line.split(' ')[1]}") not in begun:
            begun.add(key)
            parts.append(placed(before, folder))
        parts.append(f'{{ {command(line, folder)}\n}} || echo "@@ {number} ends with $?"')
    return "\n".join([*parts, "echo '@@ end'", NO_DEFAULT_LOG_DIR if stopped else STOP, ""])


def run_examples(part: str, folder: Path, kafka: bool = False) -> None:
    """Runs the examples of a part; fails at the end, with all that failed. kafka: they use Apache
    Kafka."""
    if why := available():
        assert not os.environ.get("CI"), why
        pytest.skip(why)
    lines = examples_of(part)
    assert lines
    file, log = folder / ".examples.sh", folder / ".examples.log"
    file.write_text(script(part, lines, folder, install(folder) if kafka else ""))
    limit_s = STEPS_S.get(part, EXAMPLE_S)
    code = run_script([*NAMESPACE, "bash", file], log, EXAMPLE, limit_s, cwd=folder)
    shown = log.read_text()
    begun = [int(number) for number in re.findall(r"^@@ (\d+)$", shown, re.MULTILINE)]
    failed = re.findall(r"^@@ (\d+) (ends with \d+)$", shown, re.MULTILINE)
    assert not [f"{lines[int(number)]}: {code}" for number, code in failed], shown
    assert begun == list(range(len(lines))), f"{code} at {lines[len(begun) - 1]}\n{shown[-3000:]}"
    assert code == 0, shown[-3000:]
    assert "Traceback" not in shown + (folder / "broker.log").read_text()

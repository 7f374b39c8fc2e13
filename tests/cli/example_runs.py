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
from tests.docs.session import NAMESPACE, PRELUDE, UNITS, available, placed
from tests.peer.program import run_script

LIMIT_S = 600  # up to 50 commands of a second each, which a busy machine makes five
EXAMPLE_S = 200  # for one that waits for a group, a member or a client
EXAMPLE = re.compile(rb"^@@ \d+$", re.MULTILINE)
STAYS_S = 20  # for a command that prints nothing; a busy machine takes five to begin
# Examples that run until Ctrl-C: they get it when they have printed something, and that is their
# ordinary end.
STAYS = (
    "kbroker top",
    "kbroker top --url http://127.0.0.1:9404/",
    "kbroker consume orders --from-beginning",
    "kbroker consume orders --from 2h --print-key --print-timestamp",
    "kbroker consume orders --group billing",
    "kbroker groups describe billing --watch",
)
# Examples that ask on a terminal, and the answers: they confirm a removal, or give a password
# twice.
ASK = {
    "kbroker groups remove-members billing --instance worker-3": "y",
    "kbroker acls remove --principal User:alice --topic orders --operation read": "y",
    "kbroker users remove alice": "y",
    "kbroker quotas remove --user alice producer_byte_rate": "y",
    "kbroker backups prune /backup/kbroker --keep 48": "y",
    "kbroker users add alice": "secret secret",
}
# Examples that come last, when the part's own broker has stopped. A broker must be ready, and stop.
SERVE, AFTER = "kbroker serve", ("kbroker serve", "kbroker export kraft")
# Commands, by how their examples begin, that end with 1 for what they find out about this host.
SAYS_OF_THE_HOST = ("kbroker tune check", "kbroker tune size")
# Examples that no test here runs, by how they begin, and why.
NOT_RUN = {
    "kafka-server-start.sh": "needs Java; tests/compat/test_move_out.py starts Apache Kafka so",
    "kbroker move --to kafka1:9092,kafka2:9092 --to-config": "needs Java; test_move_live.py has it",
    "kbroker move --to kafka1:9092 ": "needs Java; tests/compat/test_move_live.py has it",
    "kbroker import --from kafka1:9092 ": "needs Java; tests/compat/test_move_live.py has it",
    "AWS_ENDPOINT_URL": "needs a store; tests/cli/backup has one",
    "0 * * * *": "is a line of a crontab; its commands are examples of their own",
    "kbroker restore /backup/kbroker /tmp/orders --to": "needs a backup of the past",
    "kbroker topics reassign audit --cancel": "needs a pending reassignment",
    "kbroker tokens": "needs a broker with logins; tests/cli/test_tokens.py has one",
    "kbroker tune bench": "loads the disk for a minute; tests/tuning has it",
    "kbroker tune verify --config server.properties --try": "takes minutes; tests/tuning has it",
    "kbroker loadtest run": "takes minutes; tests/loadtest has it",
    "kbroker loadtest overhead": "takes minutes; tests/loadtest has it",
    "kbroker judge": "needs Java, Spark and a run to judge; tests/spark_validation has them",
    "kbroker transactions abort": "needs a hanging transaction; test_hanging_transactions.py makes one",
}
TOOLS = ("tune", "loadtest", "judge", "move", "import")
PARTS = {
    "records": ("serve", "status", "top", "systemd", "produce", "consume", "offsets", "clients"),
    "topics": ("topics", "configs", "cluster"),
    "groups": ("groups", "share-groups", "transactions"),
    "rights": ("acls", "users", "tokens", "quotas", "client-metrics"),
    "files": ("backup", "restore", "backups", "log", "export", "docs", *TOOLS),
}
"""The parts of the page, by the commands whose examples they have."""
HEADING = "## kbroker "
UNTIL_BEGUN = Path(__file__).with_name("until_begun.py")
TYPIST = Path(__file__).with_name("typist.py")
LOG_DIRS = {"topics": "$DATA,/disk2/kbroker"}
"""The log dirs of a part's broker, where there are several."""
FILL = "seq 3000 | kbroker produce orders -q -p 0; seq 90 | kbroker produce orders -q"
READ = "kbroker consume {topic} --group {group} --from-beginning -n 5 -q > /dev/null"
# What must be there before an example, as on the system of a user who needs it.
BEFORE = {
    "kbroker systemd /etc/kbroker": f"mkdir -p /etc/kbroker {UNITS}; "
    "echo log.dirs=/x > /etc/kbroker/server.properties",
    "kbroker produce orders records.txt": "seq -f 'k%.0f:v' 100 > records.txt",
    "kbroker consume orders --group billing": READ.format(topic="orders", group="billing"),
    "kbroker topics create orders": "kbroker topics delete orders --yes",
    "kbroker topics list": FILL,
    "kbroker topics delete-records orders:0:50": f"kbroker topics create orders -p 3; {FILL}",
    "kbroker groups list": READ.format(topic="orders", group="billing"),
    "kbroker groups delete billing audit": READ.format(topic="orders", group="audit"),
    "kbroker groups delete-offsets": "kbroker topics create audit; seq 9 | kbroker produce audit -q; "
    "kbroker consume orders audit --group billing --from-beginning -e -q > /dev/null",
    "kbroker groups remove-members billing --instance": """
kbroker consume orders -g billing -X group.instance.id=worker-3 > /dev/null & MEMBER=$!
until kbroker groups describe billing --members | grep worker-3 > /dev/null; do sleep 0.2; done""",
    "kbroker log dump data/__consumer_offsets": READ.format(topic="orders", group="billing"),
    "kbroker client-metrics describe producers": "kbroker client-metrics alter producers "
    "--metrics org.apache.kafka.producer.",
    "kbroker share-groups describe": "kbroker share-groups reset-offsets workers --topic orders "
    "--to-earliest --execute",
    "kbroker groups remove-members billing --all": "kill $MEMBER || true; wait $MEMBER || true",
    "kbroker groups reset-offsets billing --topic orders --to-earliest": """
until kbroker groups list --state Empty | grep billing > /dev/null; do sleep 0.2; done""",
    "kbroker transactions describe payments-1": """python -c '
from confluent_kafka import Producer
producer = Producer({"bootstrap.servers": "127.0.0.1:9092", "transactional.id": "payments-1"})
producer.init_transactions(120)'""",
    "kbroker tune ": 'mkdir -p tuned; echo "log.dirs=$PWD/tuned" > server.properties',
    "kbroker users add admin --offline": 'echo "log.dirs=$PWD/offline" > server.properties',
    "kbroker users remove alice --yes": "echo x | kbroker users add alice --password-file -",
    "kbroker serve server.properties": 'echo "log.dirs=$PWD/served" > server.properties',
    "kbroker export kraft --kafka 3.9": """
cat > .two.sh <<< 'kbroker serve --override log.dirs=/disk1/data,/disk2/data \\
  --override listeners=PLAINTEXT://127.0.0.1:9092'
begin .two.sh 'kbroker ready in'""",
    "kbroker move --to kafka1:9092,kafka2:9092 --plan": """
printf '127.0.0.1 localhost\\n127.0.0.2 kafka1 kafka2\\n' > hosts; mount --bind hosts /etc/hosts
cat > .cluster.sh <<< 'kbroker serve --override log.dirs=cluster \\
  --override listeners=PLAINTEXT://kafka1:9092 --override kbroker.http.listen='
stay .cluster.sh 'kbroker ready in'
kbroker topics create payments -b kafka1:9092""",
}
STDIN = {"kbroker users add admin --offline": "--password-file - <<< secret"}
BROKER = f"""
kbroker serve --override log.dirs=${{DIRS:-$DATA}} --override listeners=PLAINTEXT://127.0.0.1:9092 \\
  --override authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer \\
  --override super.users=User:ANONYMOUS --override group.initial.rebalance.delay.ms=0 > broker.log 2>&1 &
BROKER=$!
until grep -q 'kbroker ready in' broker.log; do kill -0 $BROKER; sleep 0.1; done
kbroker topics create orders --partitions 3
{FILL}
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
    if given := first(STDIN, line):
        return f"{words.partition(' #')[0]} {given}"
    return f"{words} || [ $? = 1 ]" if line.startswith(SAYS_OF_THE_HOST) else words


def script(part: str, lines: list[str], folder: Path) -> str:
    """The script of a part; those of AFTER are the last of the lines."""
    parts = [PRELUDE.format(python=sys.executable, programs=Path(sys.executable).parent)]
    parts += [f"DIRS={placed(LOG_DIRS.get(part, ''), folder)}", BROKER]
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


def run_examples(part: str, folder: Path) -> None:
    """Runs the examples of a part; fails at the end, with all that failed."""
    if why := available():
        assert not os.environ.get("CI"), why
        pytest.skip(why)
    found = examples_by_command()
    lines = [line for each in PARTS[part] for line in found.get(each, ()) if runs(line)]
    assert lines
    lines.sort(key=lambda line: line.startswith(AFTER))  # the others stay in their order
    file, log = folder / ".examples.sh", folder / ".examples.log"
    file.write_text(script(part, lines, folder))
    code = run_script([*NAMESPACE, "bash", file], log, EXAMPLE, EXAMPLE_S, cwd=folder)
    shown = log.read_text()
    begun = [int(number) for number in re.findall(r"^@@ (\d+)$", shown, re.MULTILINE)]
    failed = re.findall(r"^@@ (\d+) (ends with \d+)$", shown, re.MULTILINE)
    assert not [f"{lines[int(number)]}: {code}" for number, code in failed], shown
    assert begun == list(range(len(lines))), f"{code} at {lines[len(begun) - 1]}\n{shown[-3000:]}"
    assert code == 0, shown[-3000:]
    assert "Traceback" not in shown + (folder / "broker.log").read_text()

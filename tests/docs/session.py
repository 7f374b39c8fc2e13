"""Runs the blocks of a page in their order, in one shell, in a network and a folder of its own.

The namespace leaves every address as the page has it: 127.0.0.1:9092 is free there, whatever runs
on this machine.
"""

import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.cli.backup import s3_server
from tests.docs import systemctl
from tests.docs.blocks import (
    ROOT,
    WITH_BROKER,
    WITH_CLUSTER,
    WITH_JAVA,
    WITH_SERVICE,
    WITH_STOPPED_BROKER,
    WITH_STORE,
    WITH_SYSTEMD,
    WITH_WHEEL,
    Block,
    blocks,
)
from tests.peer.java import find_java
from tests.peer.program import STALLED, run_script

NAMESPACE = ("unshare", "--map-root-user", "--net", "--pid", "--fork", "--mount-proc", "--kill-child")
MARK = "@@ block "
BLOCK_S = 400  # a page takes seconds; a backup gives way to whatever else the machine does
BLOCK = re.compile(rf"^{MARK}\d+$".encode(), re.MULTILINE)

# Places that pages name and that lie in the session's folder instead.
UNITS = "/etc/systemd/system"  # exists on every host with systemd
STATE = "/var/lib/kbroker"
PLACES = (
    STATE,
    "/etc/kbroker",
    "/opt/kbroker",
    "/opt/kafka",
    UNITS,
    "/backup",
    "/disk1",
    "/disk2",
    "/tmp/orders",
)
_PLACE = re.compile(rf"(?<![\w/.])(?:{'|'.join(PLACES)})\b")  # not in s3://backups

PRELUDE = """
set -euo pipefail
{python} -c 'import fcntl, socket, struct
fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sh14x", b"lo", 0x41))'
export XDG_CACHE_HOME=${{XDG_CACHE_HOME:-$HOME/.cache}} PATH={programs}:$PATH HOME=$PWD DATA=$PWD/data COLUMNS=100
stay() {{ # stay FILE TEXT: runs a block until the end of the page, from when it has printed TEXT on
    setsid bash -euo pipefail "$1" > "$1.log" 2>&1 &
    STAYING="$! ${{STAYING:-}}"
    for _ in $(seq 900); do
        if grep -qF -- "$2" "$1.log"; then return; fi
        if ! kill -0 $! 2> /dev/null; then break; fi
        sleep 0.1
    done
    cat "$1.log"; return 1
}}
begin() {{ # begin FILE TEXT: runs a block until it has printed TEXT, and then stops it, a broker, clean
    stay "$1" "$2"
    local group=${{STAYING%% *}}
    STAYING=${{STAYING#* }}
    kill -TERM -- -$group
    for _ in $(seq 300); do if ! kill -0 -- -$group 2> /dev/null; then break; fi; sleep 0.1; done
    cat "$1.log"; grep -q 'kbroker stopped' "$1.log"
}}
"""
_RECORDS = """
kbroker topics create orders --partitions 3
seq 100 | kbroker produce orders
kbroker consume orders --group billing --from-beginning --max-messages 60 > /dev/null
"""
_BROKER = f"""
cat > .broker.sh <<< 'kbroker serve --override log.dirs=$DATA --override listeners=PLAINTEXT://127.0.0.1:9092'
stay .broker.sh 'kbroker ready in'
{_RECORDS}"""
_CLUSTER = """
printf '127.0.0.1 localhost\\n127.0.0.2 kafka1 kafka2 kafka3\\n' > .hosts; mount --bind .hosts /etc/hosts
cat > .cluster.sh <<< 'kbroker serve --override log.dirs=cluster \\
  --override listeners=PLAINTEXT://kafka1:9092 --override kbroker.http.listen='
stay .cluster.sh 'kbroker ready in'
kbroker topics create payments -b kafka1:9092
"""
_SYSTEMD = f"""
systemctl() {{
    (cd {ROOT} && {sys.executable} -m {systemctl.__name__} {UNITS} {STATE} "$@")
}}
journalctl() {{
    [ "$*" = '-u kbroker' ] && cat {UNITS}/kbroker.log
}}
"""
_SERVICE = f"""
python3 -m venv /opt/kbroker-0.1.0
/opt/kbroker-0.1.0/bin/pip install --quiet dist/kbroker-*-cp311-*.whl
mkdir -p /etc/kbroker; ln -s /opt/kbroker-0.1.0 /opt/kbroker
echo listeners=PLAINTEXT://127.0.0.1:9092 > /etc/kbroker/server.properties
/opt/kbroker/bin/kbroker systemd /etc/kbroker/server.properties > {UNITS}/kbroker.service
systemctl start kbroker
{_RECORDS}"""
_WHEEL = f"""
mkdir packages
for one in {sysconfig.get_path("purelib")}/*; do
    case ${{one##*/}} in *kbroker*) ;; *) ln -s $one packages/ ;; esac
done
(OUT=$PWD/dist; cd {ROOT}; {sys.executable} -m tests.release.own_wheel $OUT)
export PYTHONPATH=$PWD/packages PIP_NO_INDEX=1
"""
_STORE = f"""
echo 'cd {ROOT} && exec {sys.executable} -m {s3_server.__name__} 9000' > .store.sh
stay .store.sh '{s3_server.READY}'
"""
_END = """
for one in ${STAYING:-}; do
    kill -TERM -- -$one
    for _ in $(seq 300); do if ! kill -0 -- -$one 2> /dev/null; then break; fi; sleep 0.1; done
done
"""


class Session:
    """One page's run: what its shell printed, block by block."""

    def __init__(self, page: Path, folder: Path) -> None:
        self.page = page
        self.folder = folder
        self.blocks = [block for block in blocks(page) if block.runs or block.role == "file"]
        self.has_systemd = any(word in page.read_text() for word in (WITH_SYSTEMD, WITH_SERVICE))
        self.output: list[str] = []
        self.code = 0

    def run(self) -> None:
        """Until the first command that fails, or the last."""
        (self.folder / ".venv").symlink_to(ROOT / ".venv")
        Path(placed(UNITS, self.folder)).mkdir()
        script = self.folder / ".page.sh"
        script.write_text(self._script())
        printed = self.folder / ".page.out"
        self.code = run_script([*NAMESPACE, "bash", script], printed, BLOCK, BLOCK_S, cwd=self.folder)
        self.output = re.split(rf"^{MARK}\d+\n", printed.read_text(), flags=re.MULTILINE)

    def logs(self) -> str:
        """What the blocks that stay have printed, the brokers' logs among it."""
        return "".join(log.read_text() for log in sorted(self.folder.glob(".*.sh.log")))

    def failure(self) -> str:
        """What to show of a page whose shell ended early."""
        number = len(self.output) - 2
        if number < 0:
            return f"{self.page.name}: before the first block:\n{self.output[0]}"
        block = self.blocks[number]
        ends = f"took more than {BLOCK_S} s" if self.code == STALLED else f"ends with {self.code}"
        return (
            f"{block.page}:{block.line} {ends}:\n{block.commands}\n{self.output[-1]}\n{self.logs()[-3000:]}"
        )

    def _script(self) -> str:
        parts = [PRELUDE.format(python=sys.executable, programs=Path(sys.executable).parent)]
        text = self.page.read_text()
        if (
            WITH_STOPPED_BROKER in text
        ):  # in the place that the page names: partitions belong to log dirs by name
            parts.append(f"DATA={placed(STATE, self.folder)}\n{_BROKER}{_END}STAYING=\n")
        elif WITH_BROKER in text:
            parts.append(_BROKER)
        parts += [_WHEEL] if WITH_WHEEL in text else []
        parts += [_STORE] if WITH_STORE in text else []
        if WITH_JAVA in text and (java := find_java()) is not None:
            parts.append(f"PATH=$PATH:{java.parent}\n")
        parts += [_CLUSTER] if WITH_CLUSTER in text else []
        parts += [placed(_SYSTEMD, self.folder)] if self.has_systemd else []
        parts += [placed(_SERVICE, self.folder)] if WITH_SERVICE in text else []
        parts += [
            f"echo; echo '{MARK}{number}'\n{self._part(number, block)}"
            for number, block in enumerate(self.blocks)
        ]
        return "".join([*parts, _END])

    def _part(self, number: int, block: Block) -> str:
        text = placed(block.commands, self.folder)
        if block.role == "file":
            file = self.folder / block.argument
            return f"cat > {file} <<'@@ END'\n{text}@@ END\n"
        if block.language == "python":
            return f"{sys.executable} - <<'@@ END'\n{text}@@ END\n"
        text = text.replace("make load LOAD='", f"make -C {ROOT} load LOAD='--folder {self.folder}/load ")
        if block.role in ("stays", "starts"):
            (self.folder / f".{number}.sh").write_text(_at_home(text))
            alone = "systemctl stop kbroker\n" if self.has_systemd else ""  # the ports are free then
            return f"{alone}{'stay' if block.role == 'stays' else 'begin'} .{number}.sh '{block.argument}'\n"
        return text


def placed(text: str, folder: Path) -> str:
    """Commands whose places lie in a folder."""
    return _PLACE.sub(lambda found: str(folder / found[0].strip("/").replace("/", "-")), text)


def _at_home(text: str) -> str:
    """`make` works in the project, with the session's data."""
    return text.replace("make run", f"make -C {ROOT} run DATA=$DATA")


def available() -> str:
    """Why no page can run here; empty where it can."""
    if shutil.which(NAMESPACE[0]) is None:
        return "no unshare on this machine"
    tried = subprocess.run([*NAMESPACE, "true"], capture_output=True, text=True, check=False)
    return "" if tried.returncode == 0 else f"no namespace of one's own: {tried.stderr.strip()}"

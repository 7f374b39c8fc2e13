"""The image and a container of release/Containerfile, in a bare Debian by debootstrap instead of by
podman: the file's own steps, in namespaces of their own."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from release import try_install
from tests.release.containerfile import Stage, stages

ROOT = Path(__file__).parents[2]
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NOT_EXECUTED = ("VOLUME", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD")
LOOPBACK_UP = """import fcntl, socket, struct
fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sh14x", b"lo", 0x41))"""
# As podman and Docker run a container with --read-only: nothing can be written but the volume and a
# /dev/shm of 64 MiB.
START = f"""set -e
mount --bind {{root}} {{root}}
mount --bind {{volume}} {{root}}{{place}}
mount -t proc proc {{root}}/proc
mount --rbind /dev {{root}}/dev
mount --make-rslave {{root}}/dev
mount -t tmpfs -o size=64m,mode=1777 shm {{root}}/dev/shm
[ ! -e {{processor}} ] || mount --bind {{processor}} {{root}}/proc/cpuinfo
mount -o remount,bind,ro {{root}}
{sys.executable} -c '{LOOPBACK_UP}'
exec chroot {{root}} {{words}}"""
NAMESPACES = ("--mount", "--net", "--pid", "--ipc", "--uts")
WITHOUT_RIGHTS = ("--clear-groups", "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs")
PATIENCE_S = 120


@dataclass
class Image:
    """A file tree, and the settings of its containers. owner: ids of its user and group."""

    root: Path
    stage: Stage
    environment: dict[str, str] = field(default_factory=lambda: {"PATH": PATH})
    owner: tuple[int, int] = (0, 0)

    def as_user(self, words: list[str]) -> list[str]:
        """The command with the rights that it has in a container."""
        ids = [f"--reuid={self.owner[0]}", f"--regid={self.owner[1]}"]
        return ["setpriv", *ids, *WITHOUT_RIGHTS, *words]


def build(base: Path, folder: Path, wheel: Path) -> Image:
    """The image of the last stage. wheel: stands for dist/. Raises CannotTry if a step fails."""
    context = folder / "context"
    (context / "dist").mkdir(parents=True)
    shutil.copy(wheel, context / "dist")
    for name in ("release", "requirements"):
        (context / name).symlink_to(ROOT / name)
    roots = {"": context}
    for number, stage in enumerate(stages()):
        root = try_install.copy(base, folder / f"stage-{number}")
        (root / "usr/local/bin/python").symlink_to("/usr/bin/python3")  # as the image of FROM has it
        made = Image(root, stage)
        for instruction, text in stage.steps:
            _execute(made, instruction, text, roots, folder / "build.log")
        roots[stage.name] = root
    return made


def _execute(made: Image, instruction: str, text: str, roots: Mapping[str, Path], log: Path) -> None:
    """One step."""
    if instruction == "RUN":
        given = try_install.environment() | made.environment
        try_install.run(made.root, log, "/bin/sh", "-c", text, directory="/", given=given)
    elif instruction == "COPY":
        *options, source, target = text.split()
        name = options[0].removeprefix("--from=") if options else ""
        _copy(roots[name], source.lstrip("/"), made.root, target)
    elif instruction == "ENV":
        for word in shlex.split(text):
            key, _, value = word.partition("=")
            made.environment[key] = value.replace("$PATH", made.environment["PATH"])
    elif instruction == "USER":
        made.owner = _owner(made.root, text)
    else:
        assert instruction in NOT_EXECUTED, f"{instruction}: unknown here"


def _copy(source_root: Path, source: str, root: Path, target: str) -> None:
    """COPY: a folder gives its content, a target that ends with / is a folder."""
    place = root / target.lstrip("/")
    (place if target.endswith("/") else place.parent).mkdir(parents=True, exist_ok=True)
    found = sorted(source_root.glob(source))
    assert found, f"COPY {source}: no such file"
    for one in found:
        how = ["-aT"] if one.is_dir() else ["--preserve=mode"]
        subprocess.run(["cp", *how, str(one), str(place)], check=True)


def _owner(root: Path, user: str) -> tuple[int, int]:
    """The ids of a user of the image."""
    for line in (root / "etc/passwd").read_text().splitlines():
        name, _, uid, gid, *_ = line.split(":")
        if name == user:
            return int(uid), int(gid)
    raise LookupError(user)


class Container:
    """Starts, and starts again, the image's default command on one volume. The test stops it."""

    def __init__(self, image: Image, folder: Path) -> None:
        self.image = image
        self.log = folder / "container.log"
        self.place = image.stage.value("VOLUME")
        self.volume = folder / "volume"
        subprocess.run(["cp", "-aT", f"{image.root}{self.place}", str(self.volume)], check=True)
        self.processor = folder / "cpuinfo"  # what /proc/cpuinfo shows, if a test writes it
        self.process: subprocess.Popen[bytes] | None = None
        self.first = 0

    def start(self, **variables: str) -> None:
        """Returns when it is healthy."""
        process = self.begin(**variables)
        deadline = time.monotonic() + PATIENCE_S
        while not self.healthy():
            ended = process.poll() is not None or time.monotonic() > deadline
            assert not ended, self.log.read_text()[-3000:]
            time.sleep(0.05)

    def begin(self, **variables: str) -> "subprocess.Popen[bytes]":
        """Starts it; the process ends with it."""
        stage = self.image.stage
        words = self.image.as_user([*stage.words("ENTRYPOINT"), *stage.words("CMD")])
        script = START.format(
            root=shlex.quote(str(self.image.root)), volume=shlex.quote(str(self.volume)),
            place=self.place, words=shlex.join(words), processor=shlex.quote(str(self.processor)),
        )  # fmt: skip
        command = ["unshare", *NAMESPACES, "--fork", "--propagation", "private", "/bin/sh", "-c", script]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                command, env=self.image.environment | variables, stdout=log, stderr=log,
                stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        return self.process

    def healthy(self) -> bool:
        """The health check, as often as podman would run it."""
        assert self.process is not None
        if not (children := psutil.Process(self.process.pid).children()):
            return False
        self.first = children[0].pid
        return self.execute(*self.image.stage.health).returncode == 0

    def execute(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """A command in the running container, as by `podman exec`."""
        inside = ["nsenter", f"--target={self.first}", *NAMESPACES, "--root", "--wd"]
        return subprocess.run(
            [*inside, *self.image.as_user(list(words))],
            env=self.image.environment, capture_output=True, text=True, check=False, timeout=PATIENCE_S,
        )  # fmt: skip

    def processes(self) -> list[psutil.Process]:
        """All that run in it."""
        first = psutil.Process(self.first)
        return [first, *first.children(recursive=True)]

    def stop(self, number: int) -> int:
        """Sends the signal to its first process; returns the exit code."""
        assert self.process is not None
        os.kill(self.first, number)
        code = self.process.wait(PATIENCE_S)
        self.process = None
        return code

    def kill(self) -> None:
        """Ends what is left; the kernel kills the others of a first process that dies."""
        if self.process is not None and self.process.poll() is None:
            self.stop(signal.SIGKILL)

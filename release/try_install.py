"""Tries the ways to install in a bare Debian, made by debootstrap, and prints how long each takes:
``python -m release.try_install`` (`make try-install`; as root).

The Debian has Python, make and git, but no Python package, not even pip. Every way begins in a
fresh copy of it. Its mirror is that of this machine's apt, its packages come from where this
machine's pip takes them. The wheel is that of dist/; `make dist` makes it unless there is one that
is newer than the last commit. This program imports nothing but Python's own modules: it says what
is missing before anything is installed.
"""

import argparse
import os
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".cache" / "try-install"
PACKAGES = "python3,python3-venv,make,git,ca-certificates"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
PASSED_ON = ("PIP_", "UV_", "SSL_CERT_FILE", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
NOT_PASSED_ON = ("PIP_FIND_LINKS", "UV_FIND_LINKS", "PIP_REQUIRE_VIRTUALENV")  # folders of this machine
API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)
ANSWER_WITHIN_S = 900
CLONE = "/opt/kbroker"

Times = Iterator[tuple[str, float]]
"""The steps and their seconds; each is done when it is requested."""
WAYS = ("wheel", "clone", "tests")


class CannotTry(Exception):
    """Something on this machine is missing; the text says what to do."""


def mirror() -> tuple[str, str]:
    """Address and code name of the Debian that this machine's apt uses. Raises CannotTry."""
    found = Path("/etc/os-release").read_text().partition("VERSION_CODENAME=")[2].split("\n")[0].strip('"')
    command = ["apt-get", "indextargets", "--format", "$(SITE) $(CODENAME)", "Created-By: Packages"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    for line in listed.splitlines():
        site, _, name = line.partition(" ")
        if found and name == found:
            return site, found
    raise CannotTry("apt knows no mirror of this Debian: run apt-get update")


def debian(folder: Path) -> Path:
    """The bare Debian, made the first time. Raises CannotTry."""
    base = folder / "base"
    if os.geteuid():
        raise CannotTry("this needs root: it mounts and enters other file trees")
    if base.exists():
        return base
    if shutil.which("debootstrap") is None:
        raise CannotTry("this needs debootstrap: apt-get install debootstrap")
    site, name = mirror()
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / "unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    command = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", name, str(unfinished), site]
    with open(folder / "debootstrap.log", "wb") as log:
        if subprocess.run(command, stdout=log, stderr=log, check=False).returncode:
            raise CannotTry(f"debootstrap failed; {folder}/debootstrap.log says why")
    unfinished.rename(base)
    return base


def copy(base: Path, root: Path) -> Path:
    """A copy of the bare Debian that can reach what this machine reaches."""
    shutil.rmtree(root, ignore_errors=True)
    subprocess.run(["cp", "-a", str(base), str(root)], check=True)
    for file in (Path("/etc/resolv.conf"), Path("/etc/hosts"), CERTIFICATES, Path("/etc/pip.conf")):
        if file.exists():
            shutil.copyfile(file, root / file.relative_to("/"))
    return root


@contextmanager
def fresh(base: Path, folder: Path) -> Iterator[Path]:
    """A copy that ends with the way of installing."""
    root = copy(base, folder / "root")
    yield root
    shutil.rmtree(root)


def command_in(root: Path, words: list[str], directory: str) -> list[str]:
    """The command in the copy. It is executed, not forked, and its mounts end with it: a signal to
    the process reaches it, and nothing of this machine is mounted when the copy is removed."""
    inside = f"cd {directory} && exec {shlex.join(words)}"
    at = shlex.quote(str(root))
    script = (
        f"mount -t proc proc {at}/proc && mount --rbind /dev {at}/dev && mount --make-rslave {at}/dev && "
        f"exec chroot {at} /bin/sh -c {shlex.quote(inside)}"
    )
    return ["unshare", "--mount", "--propagation", "private", "/bin/sh", "-c", script]


def environment() -> dict[str, str]:
    """A login's, and how packages are reached."""
    passed = {
        name: value
        for name, value in os.environ.items()
        if name.upper().startswith(PASSED_ON) and name not in NOT_PASSED_ON
    }
    return passed | {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}


def run(
    root: Path, log: Path, *words: str, directory: str = "/root", given: Mapping[str, str] | None = None
) -> None:
    """Runs a command to its end. Raises CannotTry unless it ends with 0."""
    with open(log, "ab") as output:
        command = command_in(root, list(words), directory)
        ended = subprocess.run(command, env=given or environment(), stdout=output, stderr=output, check=False)
        if ended.returncode:
            raise CannotTry(f"{shlex.join(words)} failed; the end of {log}:\n{log.read_text()[-3000:]}")


def answers(port: int) -> bool:
    """Whether a broker answers ApiVersions."""
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as link:
            link.sendall(API_VERSIONS)
            return len(link.recv(4)) == 4
    except OSError:
        return False


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def first_answer(root: Path, log: Path, words: Callable[[int], list[str]], directory: str = "/root") -> float:
    """Seconds from the command to the first answer of the broker that it starts; then it is
    stopped. Raises CannotTry when it ends before."""
    port = free_port()
    began = time.monotonic()
    with open(log, "ab") as output:
        started = subprocess.Popen(
            command_in(root, words(port), directory),
            env=environment(), stdout=output, stderr=output, stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    try:
        while not answers(port):
            if started.poll() is not None or time.monotonic() - began > ANSWER_WITHIN_S:
                raise CannotTry(f"no broker came up; the end of {log}:\n{log.read_text()[-3000:]}")
            time.sleep(0.02)
        return time.monotonic() - began
    finally:
        if started.poll() is None:
            os.killpg(started.pid, signal.SIGTERM)
        started.wait(60)


def committed_at() -> float:
    """Time of the last commit; 0 in a tree without commits."""
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    return float(subprocess.run(command, capture_output=True, text=True, check=False).stdout or 0)


def present_wheel() -> Path | None:
    """The wheel of dist/ with compiled kernels, unless a commit is newer."""
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    found = sorted((ROOT / "dist").glob(f"kbroker-*-{tag}-*.whl"))
    return found[-1] if found and found[-1].stat().st_mtime >= committed_at() else None


def wheel(log: Path) -> Path:
    """The wheel with compiled kernels, by `make dist` if necessary. Raises CannotTry."""
    if present := present_wheel():
        return present
    print("make try-install: make dist", file=sys.stderr, flush=True)
    with open(log, "ab") as output:
        ended = subprocess.run(["make", "dist"], cwd=ROOT, stdout=output, stderr=output, check=False)
    if ended.returncode:
        raise CannotTry(f"make dist failed; the end of {log}:\n{log.read_text()[-3000:]}")
    if made := present_wheel():
        return made
    raise CannotTry("make dist made no wheel with compiled kernels; it does so only on x86-64")


def try_wheel(base: Path, folder: Path) -> Times:
    """Install the wheel with compiled kernels, start the broker, start it again."""
    log = folder / "wheel.log"
    package = wheel(log)
    with fresh(base, folder) as root:
        shutil.copy(package, root / "root")
        began = time.monotonic()
        run(root, log, "python3", "-m", "venv", "env")
        run(root, log, "env/bin/pip", "install", "--quiet", package.name)
        installed = time.monotonic() - began
        yield "wheel: pip install", installed

        def serve(port: int) -> list[str]:
            listeners = f"listeners=PLAINTEXT://127.0.0.1:{port}"
            own = ("log.dirs=data", listeners, "kbroker.http.listen=127.0.0.1:0")
            return ["env/bin/kbroker", "serve", *(word for one in own for word in ("--override", one))]

        first = first_answer(root, log, serve)
        yield "wheel: start to first answer", first
        yield "wheel: install to first answer, in all", installed + first
        yield "wheel: second start to first answer", first_answer(root, log, serve)


def clone(root: Path) -> float:
    """Seconds to clone this tree's commit into the copy. Raises CannotTry."""
    began = time.monotonic()
    target = root / CLONE.lstrip("/")
    for command in (
        ["git", "clone", "-q", f"file://{ROOT}", str(target)],
        ["chown", "-R", "0:0", str(target)],
    ):
        if subprocess.run(command, check=False).returncode:
            raise CannotTry(f"{shlex.join(command)} failed")
    return time.monotonic() - began


def try_clone(base: Path, folder: Path) -> Times:
    """Clone, `make run`, `make run` again; the kernels alone."""
    log = folder / "clone.log"

    def make(port: int) -> list[str]:
        return ["make", "run", f"PORT={port}"]

    with fresh(base, folder) as root:
        cloned = clone(root)
        first = first_answer(root, log, make, CLONE)
        yield "clone: git clone and make run to first answer", cloned + first
        yield "clone: second make run to first answer", first_answer(root, log, make, CLONE)
        began = time.monotonic()
        warm = ("env", "XDG_CACHE_HOME=/var/empty", ".venv/bin/python", "-m", "kbroker.kernels.warm")
        run(root, log, *warm, directory=CLONE)
        yield "clone: the kernels alone, with an empty cache", time.monotonic() - began


def try_tests(base: Path, folder: Path) -> Times:
    """Clone, `make test`, `make test` again."""
    log = folder / "tests.log"
    with fresh(base, folder) as root:
        cloned = clone(root)
        for name in ("clone: git clone and make test", "clone: second make test"):
            began = time.monotonic()
            run(root, log, "make", "test", directory=CLONE)
            yield name, cloned + time.monotonic() - began
            cloned = 0.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="make try-install", description=__doc__.split("\n\n")[0])
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument(
        "ways", nargs="*", default=["wheel", "clone"], metavar="WAY", help=f"of {', '.join(WAYS)}"
    )
    chosen = parser.parse_args()
    if unknown := set(chosen.ways) - set(WAYS):
        parser.error(f"no such way: {', '.join(sorted(unknown))}; there are {', '.join(WAYS)}")
    for log in chosen.folder.glob("*.log"):
        log.unlink()
    tries = {"wheel": try_wheel, "clone": try_clone, "tests": try_tests}
    try:
        base = debian(chosen.folder)
        print(
            f"| in a bare Debian with {os.cpu_count()} processors | seconds | load |\n|---|---:|---:|",
            flush=True,
        )
        for way in chosen.ways:
            for name, seconds in tries[way](base, chosen.folder):
                print(f"| {name} | {seconds:.1f} | {os.getloadavg()[0]:.0f} |", flush=True)
    except CannotTry as reason:
        print(f"make try-install: {reason}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

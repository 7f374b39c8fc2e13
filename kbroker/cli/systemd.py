"""``kbroker systemd``: prints a hardened service unit for this installation."""

import os
import re
import shlex
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from kbroker.cli.failures import UsageFailed
from kbroker.cli.options import examples
from kbroker.cli.output import say
from kbroker.config import properties
from kbroker.config.http_owner import BROKER_USER as USER
from kbroker.config.setting import ConfigError

EXAMPLES = examples(
    "kbroker systemd",
    "kbroker systemd /etc/kbroker/server.properties > /etc/systemd/system/kbroker.service",
)

STATE = Path("/var/lib/kbroker")
AUDIT = "kbroker.audit.log.dir"
KEY_FILES = ("ssl.keystore.location", "ssl.truststore.location")
"""Ends of settings that name a file: a listener's own have a prefix."""
HIDDEN = (Path("/tmp"), Path("/var/tmp"))  # PrivateTmp=yes
"""Folders of the host that are hidden from the service."""
HOMES = (Path("/home"), Path("/root"), Path("/run/user"))
"""Hidden, too (ProtectHome=yes), unless the program is in one of them."""

_NOT_IN_A_UNIT = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")

UNIT = """\
# {written}
[Unit]
Description=kbroker, a message broker that speaks the Apache Kafka protocol
After=network-online.target
Wants=network-online.target
{mounts}
[Service]
# The broker reports that it is ready. A start that compiles, or checks logs after a crash, may take long.
Type=notify
TimeoutStartSec=infinity
ExecStart={command}
User=kbroker
DynamicUser=yes
{writable}StateDirectory=kbroker
StateDirectoryMode=0700
CacheDirectory=kbroker
Environment=XDG_CACHE_HOME=/var/cache/kbroker HOME=/var/lib/kbroker
# One SIGTERM to the parent is enough; it ends its children in order. A stop writes every log to disk.
KillMode=mixed
TimeoutStopSec=150
Restart=on-failure
RestartSec=1
# Settings that are refused, which no further start accepts.
RestartPreventExitStatus=2
LimitNOFILE=1048576
# A core dump has records, and passwords of clients and key stores.
LimitCORE=0
UMask=0077

AmbientCapabilities=
CapabilityBoundingSet=
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome={home}
PrivateTmp=yes
PrivateDevices=yes
PrivateUsers=yes
DevicePolicy=closed
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
LockPersonality=yes
RemoveIPC=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources
SystemCallFilter=sched_setattr sched_setaffinity setpriority ioprio_set prlimit64 setrlimit
SystemCallErrorNumber=EPERM
{executable}

[Install]
WantedBy=multi-user.target
"""

COMPILES = """\
# A first start compiles the kernels, which makes memory executable.
MemoryDenyWriteExecute=no"""
COMPILED = """\
# This wheel contains the kernels for this host. Print the unit again after another kind of installation.
MemoryDenyWriteExecute=yes"""


def unit(program: Path, properties: str, folders: Sequence[Path] = (), compiles: bool = True) -> str:
    """The unit's text. folders: data folders of the settings; none: the data is in STATE."""
    words = [str(program), "serve", *([properties] if properties else [])]
    words += [] if folders else ["--override", f"log.dirs={STATE}"]
    outside = " ".join(place(str(folder)) for folder in folders if not folder.is_relative_to(STATE))
    return UNIT.format(
        written="/etc/systemd/system/kbroker.service, written by `kbroker systemd`",
        command=" ".join(word(each) for each in words),
        mounts=f"RequiresMountsFor={outside}\n" if outside else "",
        writable=f"ReadWritePaths={outside}\n" if outside else "",
        home="read-only" if is_in(program, HOMES) else "yes",
        executable=COMPILES if compiles else COMPILED,
    )


def compiles() -> bool:
    """Whether a start of the service compiles the kernels or lets LLVM link them. With linked
    kernels in the wheel it only maps a file, if no user but root or its own can write that."""
    from kbroker.kernels import packaged, trust  # as all kernels, not for every command
    from kbroker.kernels.linking.areas import PAGE
    from kbroker.kernels.linking.shared_image import is_linked

    for file in packaged.fitting():
        about = file.lstat()
        if not stat.S_ISREG(about.st_mode) or about.st_mode & trust.GROUP_OR_OTHERS:
            continue
        if _owner(file) not in ("root", USER):
            continue
        with open(file, "rb") as image:
            return not is_linked(image.read(PAGE))
    return True


def program_of(called: str) -> Path:
    """The program that the service runs. called: the name by which this one runs; of `python -m
    kbroker` it is a module, which cannot be executed."""
    if Path(called).name == "__main__.py":
        return Path(sys.executable).with_name("kbroker").absolute()
    return Path(shutil.which(called) or called).absolute()


def is_in(path: Path, folders: Iterable[Path]) -> bool:
    """Whether a path is one of the folders, or lies in one."""
    return any(path.is_relative_to(folder) for folder in folders)


def key_files(pairs: Mapping[str, str]) -> list[Path]:
    """Key and trust stores of the settings."""
    return [Path(value) for key, value in sorted(pairs.items()) if value and key.endswith(KEY_FILES)]


def folders_of(pairs: Mapping[str, str]) -> list[Path]:
    """The log dirs of the settings, then the folder of the audit log; none without log dirs: the
    service then uses STATE."""
    names = pairs.get("log.dirs") or pairs.get("log.dir") or ""
    dirs = [Path(name.strip()) for name in names.split(",") if name.strip()]
    audit = pairs.get(AUDIT, "")
    return [*dirs, *([Path(audit)] if audit else [])] if dirs else []


def word(text: str) -> str:
    """Quote a word for a systemd command line, which has quotes, variables and specifiers."""
    return place(text).replace("$", "$$")


def place(text: str) -> str:
    """Quote a path for other lines of a unit: these have no variables. Raises UsageFailed for a
    path with a control character, such as a line break, or half of a surrogate pair."""
    if _NOT_IN_A_UNIT.search(text):
        raise UsageFailed(f"{text!r} has a character that no unit can hold")
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"' if re.search(r"[\s\"'\\;]", text) else escaped


def foreign(program: Path, folders: Iterable[Path]) -> Iterator[str]:
    """The reason why the service could not write to the folders of its settings: systemd only gives
    it STATE."""
    hidden = _hidden_from(program)
    for folder in folders:
        if not folder.is_absolute():
            yield f"{folder} is not an absolute path, and the service starts in /"
        elif is_in(folder, hidden):
            yield f"{folder} is not visible to the service: set another folder, for instance in /var/lib"
        elif not folder.is_relative_to(STATE) and _owner(folder) != USER:
            yield (
                f"{folder} must belong to the service's user: "
                f"useradd --system {USER}; install -d -o {USER} -g {USER} -m 0700 {shlex.quote(str(folder))}"
            )


def _owner(path: Path) -> str | None:
    try:
        return path.owner()
    except (OSError, KeyError):
        return None


def _hidden_from(program: Path) -> tuple[Path, ...]:
    return HIDDEN if is_in(program, HOMES) else (*HIDDEN, *HOMES)


def remarks(program: Path, *files: Path) -> Iterator[str]:
    """The reasons why the service's user cannot read a file, one text for each such file."""
    hidden = _hidden_from(program)
    for file in (program, *files):
        if is_in(file, hidden):
            why = "has a private /tmp" if is_in(file, HIDDEN) else "has no access to home folders"
            yield f"{file} is not visible to the service, which {why}"
            continue
        for folder in reversed(file.parents):
            if folder.exists() and not folder.stat().st_mode & stat.S_IXOTH:
                yield f"{file} cannot be reached by the service's user: {folder} is closed to others"
                break


def _unusable(files: Iterable[Path]) -> Iterator[str]:
    """The reason why the service could not open the key stores of its settings."""
    for file in files:
        if not file.is_absolute():
            yield f"{file} is not an absolute path, and the service starts in /"
        elif not os.path.exists(file):  # noqa: PTH110  false for any error
            yield f"{file} does not exist"
        else:
            yield from _closed(file)


def _closed(settings: Path) -> Iterator[str]:
    """Check a file that others cannot read, as files with passwords or keys should be."""
    if settings.stat().st_mode & stat.S_IROTH == 0 and _owner(settings) != USER:
        yield (
            f"{settings} cannot be read by the service's user: "
            f"useradd --system {USER}; chown {USER} {shlex.quote(str(settings))}"
        )


def _read(settings: Path) -> dict[str, str]:
    """Read the settings. Raises UsageFailed, because a unit with unreadable settings would fail at
    each start."""
    if not settings.name or os.path.isdir(settings):  # noqa: PTH112  false for any error
        raise UsageFailed("SERVER.PROPERTIES must name a file, such as /etc/kbroker/server.properties")
    try:
        return properties.read(settings)
    except ConfigError as error:
        raise UsageFailed(f"SERVER.PROPERTIES: {error}") from error


def systemd(
    settings: Annotated[
        Path | None,
        typer.Argument(
            metavar="[SERVER.PROPERTIES]", help="Settings file of the service.", show_default=False
        ),
    ] = None,
) -> None:
    """Print a hardened systemd unit: kbroker systemd > /etc/systemd/system/kbroker.service

    The service keeps its data in log.dirs of the settings, by default in /var/lib/kbroker."""
    pairs = {} if settings is None else _read(settings)
    folders, keys = folders_of(pairs), key_files(pairs)
    program = program_of(sys.argv[0])
    files = [] if settings is None else [settings.absolute()]
    text = unit(program, str(files[0]) if files else "", folders, compiles())
    for remark in remarks(program, *files, *(key for key in keys if os.path.exists(key))):  # noqa: PTH110
        say(f"kbroker: {remark}; put it elsewhere, for instance into /opt or /etc")
    for remark in (*foreign(program, folders), *_unusable((*files, *keys))):
        say(f"kbroker: {remark}")
    typer.echo(text, nl=False)

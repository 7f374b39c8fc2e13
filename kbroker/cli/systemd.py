"""``kbroker systemd``: a service unit for this installation, closed to all that a broker does not
need."""

import re
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from kbroker.cli.failures import UsageFailed

HIDDEN = (Path("/tmp"), Path("/var/tmp"))  # PrivateTmp=yes
"""Folders of the host that the service does not see."""

UNIT = """\
# {written}
[Unit]
Description=kbroker, a message broker that speaks the Apache Kafka protocol
After=network-online.target
Wants=network-online.target

[Service]
Type=exec
ExecStart={program} serve {properties} --override log.dirs=/var/lib/kbroker
User=kbroker
DynamicUser=yes
StateDirectory=kbroker
StateDirectoryMode=0700
CacheDirectory=kbroker
Environment=XDG_CACHE_HOME=/var/cache/kbroker HOME=/var/lib/kbroker
# One SIGTERM to the parent is enough; it ends its children in order. A stop writes every log to disk.
KillMode=mixed
TimeoutStopSec=150
Restart=on-failure
RestartSec=1
LimitNOFILE=1048576
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
# Linking the compiled kernels makes memory executable.
MemoryDenyWriteExecute=no

[Install]
WantedBy=multi-user.target
"""


def unit(program: Path, properties: str) -> str:
    """The unit's text."""
    return UNIT.format(
        written="/etc/systemd/system/kbroker.service, written by `kbroker systemd`",
        program=word(str(program)),
        properties=word(properties) if properties else "",
        home="read-only" if program.is_relative_to("/home") or program.is_relative_to("/root") else "yes",
    ).replace("serve  --", "serve --")


def word(text: str) -> str:
    """One word of a command line of systemd, which knows quotes, variables and specifiers."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"' if re.search(r"[\s\"'\\;]", text) else escaped


def remarks(*files: Path) -> Iterator[str]:
    """Why the service's user would not find a file, one text for each that it would not."""
    for file in files:
        if any(file.is_relative_to(folder) for folder in HIDDEN):
            yield f"{file} is not visible to the service, which has a /tmp of its own"
            continue
        for folder in reversed(file.parents):
            if folder.exists() and not folder.stat().st_mode & stat.S_IXOTH:
                yield f"{file} cannot be reached by the service's user: {folder} is closed to others"
                break


def _require_file(properties: Path) -> None:
    """Raises UsageFailed: a unit with settings that are not there would fail at each start."""
    try:
        if not properties.name or properties.is_dir():
            raise UsageFailed("SERVER.PROPERTIES names a file, as /etc/kbroker/server.properties")
        with properties.open("rb"):
            pass
    except OSError as error:
        raise UsageFailed(f"SERVER.PROPERTIES: {properties}: {error.strerror}") from error


def systemd(
    properties: Annotated[
        Path | None,
        typer.Argument(metavar="[SERVER.PROPERTIES]", help="Settings of the service.", show_default=False),
    ] = None,
) -> None:
    """Print a hardened systemd unit: kbroker systemd > /etc/systemd/system/kbroker.service"""
    if properties is not None:
        _require_file(properties)
    program = Path(shutil.which(sys.argv[0]) or sys.argv[0]).absolute()
    settings = [properties.absolute()] if properties is not None else []
    for remark in remarks(program, *settings):
        typer.echo(f"kbroker: {remark}; put it elsewhere, for instance into /opt or /etc", err=True)
    typer.echo(unit(program, str(settings[0]) if settings else ""), nl=False)

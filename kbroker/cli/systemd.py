"""``kbroker systemd``: a service unit for this installation, closed to all that a broker does not
need."""

import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

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
        program=program,
        properties=properties,
        home="read-only" if program.is_relative_to("/home") or program.is_relative_to("/root") else "yes",
    ).replace("serve  --", "serve --")


def systemd(
    properties: Annotated[
        Path | None,
        typer.Argument(metavar="[SERVER.PROPERTIES]", help="Settings of the service.", show_default=False),
    ] = None,
) -> None:
    """Print a hardened systemd unit: kbroker systemd > /etc/systemd/system/kbroker.service"""
    program = Path(shutil.which(sys.argv[0]) or sys.argv[0]).absolute()
    typer.echo(unit(program, str(properties.absolute()) if properties is not None else ""), nl=False)

"""The message to systemd that the broker is ready, as a unit with Type=notify expects it. Runs in:
acceptor."""

import logging
import os
import socket

log = logging.getLogger(__name__)

ADDRESS = "NOTIFY_SOCKET"
"""The variable that names systemd's socket; not set without it."""


def report_ready() -> None:
    """Let `systemctl start`, and services that start after this one, continue."""
    name = os.environ[ADDRESS]
    address = f"\0{name[1:]}" if name.startswith("@") else name
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as link:
            link.sendto(b"READY=1", address)
    except OSError as error:  # the broker serves; systemd waits, and shows the service as activating
        log.warning("systemd does not know that the broker is ready: %s: %s", name, error.strerror)

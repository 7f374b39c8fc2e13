"""Lines of the audit log about events of network processes: logins, refusals, samples of data."""

from typing import Any

from kbroker.control.audit.log import AuditLog, shortened
from kbroker.ipc.messages import AuditEvent


def written(audit: AuditLog | None, events: tuple[AuditEvent, ...]) -> None:
    """Write an event of a network process."""
    if audit is not None:
        for event in events:
            audit.write(line_of(event), event.time_ms)


def line_of(event: AuditEvent) -> dict[str, Any]:
    """The line of a login, a refusal or a sample of a network process."""
    line: dict[str, Any] = {
        "event": event.event,
        "principal": shortened(event.principal),
        "host": event.host,
        "port": event.port,
        "listener": event.listener,
        "operation": event.operation,
        "allowed": event.allowed,
    }
    if event.names:
        line["resources"] = [{"name": shortened(name)} for name in event.names]
    if event.count != 1:
        line["count"] = event.count
    if event.reason:
        line["reason"] = shortened(event.reason)
    return line

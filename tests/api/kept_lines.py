"""An audit log that keeps its lines in memory."""

from typing import Any

from kbroker.control.audit.log import AuditLog


class Kept(AuditLog):
    """Keeps the lines."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def admits_refusal(self, principal: str, host: str, listener: str) -> bool:
        """All of them."""
        return True

    def write_change(self, line: dict[str, Any]) -> None:
        self.lines.append(line)

    def write(self, line: Any, time_ms: int | None = None) -> None:
        self.lines.append(dict(line))

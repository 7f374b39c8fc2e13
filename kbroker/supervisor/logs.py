"""Log lines of all processes: one handler to stderr; each line names the process it comes from."""

import logging
import os
import sys
import time


class Line(logging.Formatter):
    """``2026-01-31T12:00:00.123Z INFO acceptor[4711] text``; the role is read at each line: children fork later."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, and a traceback below it where there is one."""
        handler = logging.getLogger().handlers[0]
        role = (handler.get_name() or "acceptor").removeprefix("kbroker: ")
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        stamp = f"{seconds}.{int(record.msecs):03d}Z"
        text = f"{stamp} {record.levelname} {role}[{os.getpid()}] {record.getMessage()}"
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return text


def log_to_stderr(level: str) -> None:
    """Replace the root logger's handlers."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Line())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)

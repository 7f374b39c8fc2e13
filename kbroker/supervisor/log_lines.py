"""Log lines of all processes: one handler to stderr; each line names the process it comes from."""

import json
import logging
import os
import sys
import time
from typing import Final

_CONTROLS: Final = (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)
_ESCAPES: Final = {code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" for code in _CONTROLS}
_MESSAGE: Final = _ESCAPES | {ord(character): repr(character)[1:-1] for character in "\n\r\t"}
_TRACEBACK: Final = _ESCAPES | {ord("\n"): "\n  "}
_JSON: Final = {code: f"\\u{code:04x}" for code in _CONTROLS}
"""Many lines show names that clients choose: these neither forge a line nor control a terminal. No
line of an error begins in the first column, where the log's lines have their times."""


MAX_MESSAGE: Final = 8192
"""Characters of a message, which may show names of clients, as long as a request may be."""
MAX_TRACEBACK: Final = 65_536


class Line(logging.Formatter):
    """``2026-01-31T12:00:00.123Z INFO acceptor[4711] text``; the role is read at each line:
    children fork later."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, and a traceback below it where there is one."""
        text = f"{_stamp(record)} {record.levelname} {_role()}[{os.getpid()}] "
        text += _cut(record.getMessage(), MAX_MESSAGE).translate(_MESSAGE)
        for name, value in _fields(record).items():
            text += f" {name}={json.dumps(value)}"
        if record.exc_info:
            text += "\n" + _cut(self.formatException(record.exc_info), MAX_TRACEBACK).translate(_TRACEBACK)
        return text


class JsonLine(logging.Formatter):
    """Formats a record as a JSON object in one line, with the traceback as a member, for log
    collectors."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        found = {
            "time": _stamp(record),
            "level": record.levelname,
            "process": _role(),
            "pid": os.getpid(),
            "logger": record.name,
            "message": _cut(record.getMessage(), MAX_MESSAGE),
            **_fields(record),
        }
        if record.exc_info:
            found["exception"] = _cut(self.formatException(record.exc_info), MAX_TRACEBACK)
        return json.dumps(found, ensure_ascii=False).translate(_JSON)


FORMATS: Final = {"text": Line, "json": JsonLine}
LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR")
LEVEL, FORMAT = "KBROKER_LOG_LEVEL", "KBROKER_LOG_FORMAT"


def log_to_stderr(level: str, written_as: str = "text") -> list[str]:
    """Replace the root logger's handlers; returns the problems of the level and the format, which
    are then the defaults."""
    problems = []
    if level.upper() not in LEVELS:
        problems.append(f"{LEVEL}={level} is not one of {', '.join(LEVELS)}")
        level = "INFO"
    if written_as.lower() not in FORMATS:
        problems.append(f"{FORMAT}={written_as} is not one of {', '.join(FORMATS)}")
        written_as = "text"
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(FORMATS[written_as.lower()]())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    return problems


def _cut(text: str, limit: int) -> str:
    """The text, or its beginning and end: the end of a message has the reason."""
    if len(text) <= limit:
        return text
    return f"{text[: limit // 2]}[... {len(text) - limit} characters ...]{text[len(text) - limit // 2 :]}"


def _stamp(record: logging.LogRecord) -> str:
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{seconds}.{int(record.msecs):03d}Z"


def _fields(record: logging.LogRecord) -> dict[str, object]:
    """Fields of a line besides its message, by name: ``extra={"fields": ...}``."""
    found: dict[str, object] = getattr(record, "fields", {})
    return {
        name: _cut(value, MAX_MESSAGE) if isinstance(value, str) else value for name, value in found.items()
    }


def _role() -> str:
    handler = logging.getLogger().handlers[0]
    return (handler.get_name() or "acceptor").removeprefix("kbroker: ")

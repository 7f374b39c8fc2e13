"""Exit codes of all commands: the table from which `kbroker --help` and docs/cli.md are
generated."""

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit code of the kbroker command, with what it means to a script."""

    meaning: str

    def __new__(cls, value: int, meaning: str) -> "ExitCode":
        code = int.__new__(cls, value)
        code._value_ = value
        code.meaning = meaning
        return code

    OK = 0, "done"
    FAILED = 1, "the broker answered with an error, or something is missing or damaged"
    USAGE = 2, "the command line is wrong, or a file that it names cannot be read: nothing was sent"
    UNREACHABLE = 3, "no connection to the broker or to the store of backups, or no answer within --timeout"
    INTERRUPTED = 130, "stopped by Ctrl-C before it was done"

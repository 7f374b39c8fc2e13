"""Failures of commands: turns errors of the client libraries into a sentence and an exit code.

The client libraries are not imported here: their errors can only occur after they were imported.
"""

import errno
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any, TypeVar

import typer

from kbroker.cli.error_hints import with_hint
from kbroker.cli.exit_codes import ExitCode
from kbroker.cli.output import printed, say
from kbroker.protocol.errors import ErrorCode

# librdkafka's own errors (all negative) that mean "no broker" and "your argument", the rest is a
# failure.
_UNREACHABLE = (
    "_TRANSPORT",
    "_TIMED_OUT",
    "_ALL_BROKERS_DOWN",
    "_RESOLVE",
    "_SSL",
    "_AUTHENTICATION",
    "_TIMED_OUT_QUEUE",
    "_MSG_TIMED_OUT",
)
Result = TypeVar("Result")
FEW_COMMANDS = 12
"""Maximum of commands that the error about an unknown one lists."""
_NO_INT = re.compile("is not a valid int(?:eger)?(?: range)?$")
_NO_FLOAT = re.compile("is not a valid float(?: range)?$")
"""Ends of the option parser's texts in words of its types."""
_USAGE = ("_INVALID_ARG", "_CONFLICT")
_ORIGINS = tuple(f"Failed to create {kind}: " for kind in ("admin client", "consumer", "producer"))
_ORIGINS += ("Broker: ", "Local: ")
"""Beginnings of librdkafka's texts that do not help a user."""
_UNKNOWN_TOPIC_TEXTS = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.message, "Unknown topic or partition")
"""Texts of Kafka and of librdkafka for the same code."""
_NOT_WRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


class CommandFailed(Exception):
    """Ends a command with this sentence on stderr and this exit code. error: the broker's, for a
    refusal."""

    def __init__(self, message: str, code: int = ExitCode.FAILED, error: ErrorCode | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.error = error


class UsageFailed(CommandFailed):
    """An argument is invalid in a way that the option parser cannot check."""

    def __init__(self, message: str, code: int = ExitCode.USAGE) -> None:
        super().__init__(message, code)


class Unreachable(CommandFailed):
    """No broker answers."""

    def __init__(self, message: str) -> None:
        super().__init__(message, ExitCode.UNREACHABLE)


def broker_error(code: int, text: str | None = None, subject: str = "") -> CommandFailed:
    """The failure for an error code in an answer; `text`: the broker's message, which may have
    names of clients. subject: clients may have chosen it."""
    prefix = f"{printed(subject)}: " if subject else ""
    try:
        known = ErrorCode(code)
    except ValueError:
        return CommandFailed(f"{prefix}error {code}: {printed(text or 'not known here')}")
    reason = printed(text or known.message)
    if known is ErrorCode.INVALID_CONFIG:
        from kbroker.cli.setting_names import with_suggestion

        reason = with_suggestion(reason)
    if known is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and reason in _UNKNOWN_TOPIC_TEXTS:
        reason = "there is no such topic or partition"
    exit_code = ExitCode.UNREACHABLE if known is ErrorCode.REQUEST_TIMED_OUT else ExitCode.FAILED
    return CommandFailed(f"{prefix}{known.name}: {with_hint(reason, known)}", exit_code, known)


def check_answer(answer: Any, subject: str = "") -> None:
    """Raises CommandFailed if an answer, or a part of it, has an error code."""
    if answer.error_code:
        raise broker_error(answer.error_code, answer.error_message, subject)


def raise_first(failures: Sequence[CommandFailed]) -> None:
    """Prints all failures of a command's items except the first, and raises that one."""
    for failure in failures[1:]:
        say(failure.message)
    if failures:
        raise failures[0]


def explain(error: BaseException, subject: str = "") -> CommandFailed | None:
    """The failure for an exception; None for a bug."""
    if isinstance(error, CommandFailed):
        return error
    if isinstance(error, typer.Abort):
        return CommandFailed("stopped: nothing more was changed")
    if (render := getattr(error, "format_message", None)) is not None:
        return _explain_parser(error, render())
    if (library := sys.modules.get("confluent_kafka")) and isinstance(error, library.KafkaException):
        return _explain_librdkafka(library, error.args[0], subject)
    if (library := sys.modules.get("kafka.errors")) and isinstance(error, library.KafkaError):
        return _explain_kafka_python(library, error, subject)
    if isinstance(error, OSError):
        return _explain_system(error)
    if isinstance(error, ValueError | OverflowError | TypeError) and _was_refused_by_library(error):
        return UsageFailed(f"{subject}: {error}" if subject else str(error))
    return None


def again_and_again(read: Callable[[], Result], every_s: float) -> Iterator[Result]:
    """The results of `read`, at this interval. A broker that does not answer ends only the first
    reading; later on one remark says that it is tried again."""
    answered: bool | None = None  # by the last reading
    while True:
        try:
            found = read()
        except Exception as error:
            failure = explain(error)
            if answered is None or not isinstance(failure, Unreachable):
                raise
            if answered:
                say(f"{failure.message}; trying again")
            answered = False
        else:
            answered = True
            yield found
        time.sleep(every_s)


def _explain_system(error: OSError) -> CommandFailed | None:
    """Explains an OSError without a file name: of a connection, of stdout, or of tempfile."""
    reason = error.strerror or str(error)
    if error.filename is not None:
        return CommandFailed(f"{error.filename}: {reason}")
    if isinstance(error, ConnectionError | TimeoutError):
        return Unreachable(reason)
    if error.errno == errno.ENOENT and "temporary directory" in reason:
        return CommandFailed(f"{reason}: set TMPDIR to a folder that this user can write")
    return CommandFailed(f"cannot write: {reason}") if error.errno in _NOT_WRITTEN else None


def _explain_parser(error: BaseException, message: str) -> CommandFailed:
    """Explains an error of the option parser in one line, with the command for help."""
    context, code = getattr(error, "ctx", None), getattr(error, "exit_code", ExitCode.USAGE)
    if type(error).__name__ == "NoArgsIsHelpError":
        print(message, file=sys.stderr)
        return UsageFailed("", code)
    line = " ".join(message.replace("Value error, ", "").split()).removesuffix(".")
    line = _NO_INT.sub("is not a whole number", _NO_FLOAT.sub("is not a number", line))
    if context and line.startswith("No such command") and "Did you mean" not in line:
        known = context.command.list_commands(context)
        line += f": there are {', '.join(known)}" if len(known) <= FEW_COMMANDS else ""
    if context and line.startswith("No such option"):
        line = _explain_option(error, context, line)
    return UsageFailed(f"{line}; see `{context.command_path} --help`" if context else line, code)


def _explain_option(error: Any, context: Any, line: str) -> str:
    """The line about an option that a command lacks, with the next step if there is one."""
    from kbroker.cli.kafka_options import instead

    if hint := instead(error.option_name, context.command, context.command_path):
        return f"{error.message}: {hint}"
    guessed = error.possibilities  # a misspelt option of the program itself
    if not guessed and hasattr(context.command, "list_commands"):
        return f"{line}: options of a command follow its name"
    return line


def _was_refused_by_library(error: BaseException) -> bool:
    """Whether confluent-kafka refused an argument before it sent anything: its own frame is the
    last one."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    return frame is not None and "confluent_kafka" in frame.tb_frame.f_globals.get("__name__", "")


def _explain_librdkafka(library: ModuleType, error: object, subject: str) -> CommandFailed | None:
    if not isinstance(error, library.KafkaError):
        return CommandFailed(
            str(error), ExitCode.USAGE
        )  # librdkafka reports an invalid setting as a plain string
    code, name, text = error.code(), error.name(), error.str()
    if code > 0:
        return broker_error(code, without_origin(text), subject)
    text = without_origin(text)
    prefix = f"{subject}: " if subject else ""
    if name in _UNREACHABLE:
        return Unreachable(f"{prefix}{text}")
    if name in _USAGE:
        return UsageFailed(f"{prefix}{text}")
    return CommandFailed(f"{prefix}{text}")


def without_origin(text: str) -> str:
    """A text of librdkafka without the words that say where the error was found."""
    text = text.strip()
    for origin in _ORIGINS:
        text = text.removeprefix(origin)
    return text


def _explain_kafka_python(library: ModuleType, error: BaseException, subject: str) -> CommandFailed:
    prefix = f"{subject}: " if subject else ""
    if isinstance(error, library.KafkaConfigurationError):
        return UsageFailed(f"{prefix}{error}")
    if isinstance(error, library.BrokerResponseError):
        reason = error.args[0] if error.args and isinstance(error.args[0], str) else None
        # The library's texts contain whole requests and answers, so they are not shown.
        reason = None if reason is None or "Response" in reason or "Request" in reason else reason
        return broker_error(error.errno, reason, subject)
    connection = ("KafkaConnectionError", "KafkaTimeoutError", "NoBrokersAvailable", "NodeNotReadyError")
    if isinstance(error, tuple(getattr(library, name) for name in connection if hasattr(library, name))):
        return Unreachable(f"{prefix}{error}")
    return CommandFailed(f"{prefix}{error}")


def result_of(future: Any, subject: str = "") -> Any:
    """The result of an admin client's future. Raises CommandFailed, which names the subject."""
    try:
        return future.result()
    except Exception as error:
        raise explain(error, subject) or error from error

"""Runs Apache Kafka's own Java programs (console, verifiable and perf clients, DumpLogSegments)."""

import subprocess
from pathlib import Path
from typing import IO

from tests.peer import shared_classes
from tests.peer.artifacts import KAFKA, PeerUnavailable, class_path
from tests.peer.java import find_java

QUICK_JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
QUIET_LOG = "-Dorg.slf4j.simpleLogger.defaultLogLevel="


class ToolFailed(AssertionError):
    """A tool ended with another code than 0; the text holds what it said."""


def java_command(
    main_class: str,
    *args: str,
    jvm: tuple[str, ...] = QUICK_JVM,
    log: str = "warn",
    jars: str = KAFKA,
    shared: bool = True,
) -> list[str]:
    """The command line of a Java class of the peer, or of another set of jars. shared: with the
    file of shared_classes, if there is one. Raises PeerUnavailable."""
    libraries = class_path(jars)
    java = find_java()
    if java is None:
        raise PeerUnavailable("no Java 17 or newer")
    classes = shared_classes.options(java, jars) if shared else ()
    return [str(java), *jvm, *classes, f"{QUIET_LOG}{log}", "-cp", libraries, main_class, *args]


def run_tool(
    main_class: str,
    *args: str,
    stdin: str | None = None,
    timeout_s: float = 240,
    check: bool = True,
    jars: str = KAFKA,
) -> subprocess.CompletedProcess[str]:
    """Runs one tool to its end; stdout and stderr are captured. Raises ToolFailed unless check is
    False."""
    command = java_command(main_class, *args, jars=jars)
    feed: dict[str, object] = {"input": stdin} if stdin is not None else {"stdin": subprocess.DEVNULL}
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, **feed)  # type: ignore[call-overload]
    if check and done.returncode:
        name = main_class.rpartition(".")[2]
        raise ToolFailed(
            f"{name} {' '.join(args)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        )
    return done


def open_tool(
    main_class: str, *args: str, output: IO[bytes] | int = subprocess.PIPE
) -> subprocess.Popen[bytes]:
    """Starts a tool that runs until it is stopped; the caller ends it. stderr goes where stdout
    goes."""
    command = java_command(main_class, *args)
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT)


def dump_log(*files: Path, options: tuple[str, ...] = ("--print-data-log",)) -> str:
    """What Apache Kafka's DumpLogSegments says of segment, index and snapshot files."""
    names = ",".join(map(str, files))
    return run_tool("org.apache.kafka.tools.DumpLogSegments", *options, "--files", names).stdout

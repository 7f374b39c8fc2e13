"""Limits of descriptors: a process's and the host's."""

from tuning.finding import Means, Remedy, Severity
from tuning.knobs.knob import Assessment, Knob, sysctl, whole_host
from tuning.situation import Situation

FEWEST = 100_000  # what Apache Kafka's documentation starts with


def required_files(situation: Situation) -> int:
    """The limit to propose: the need, but at least FEWEST, as a high limit costs nothing."""
    return max(FEWEST, situation.files_needed)


def _files(situation: Situation, _: None, now: str) -> Assessment:
    needed, limit = situation.files_needed, int(now)
    because = f"This workload needs {needed} in one process."
    if limit >= needed:
        return Assessment(Severity.OK, "", because)
    expected = str(required_files(situation))
    return Assessment(Severity.SERIOUS, expected, because, Remedy(Means.LIMIT, "LimitNOFILE", expected, now))


def _host_files(situation: Situation, now: str) -> tuple[Severity, str, str]:
    processes = situation.network_processes + situation.io_workers + 3
    needed = situation.files_needed * processes
    if int(now) >= needed:
        return Severity.OK, "", ""
    return Severity.SERIOUS, str(needed), f"{processes} processes of kbroker may need {needed}."


def _ceiling(situation: Situation, now: str) -> tuple[Severity, str, str]:
    expected = required_files(situation)
    if int(now) >= expected:
        return Severity.OK, "", ""
    return Severity.ADVICE, str(expected), "No process can have a higher limit."


def _read(situation: Situation, _: None) -> str | None:
    limit = situation.host.files_limit
    if limit is None:
        return None
    return str(limit if limit >= 0 else situation.host.sysctl_number("fs.nr_open") or 1 << 20)


FS = "Linux, Documentation/admin-guide/sysctl/fs.rst"

LIMITS: tuple[Knob[None], ...] = (
    Knob(
        "descriptors of a process (hard limit)",
        whole_host,
        _read,
        _files,
        "A log that is being appended to needs three, a connection one, with TLS four; kbroker raises its soft "
        "limit to the hard one, and closes the files of idle logs. New connections wait while a network process has "
        "no descriptors for them.",
        "kbroker/io/log_dirs/file_handles.py; make bench, scenario many_partitions (6,040 with 10,000 partitions)",
    ),
    sysctl("fs.file-max", _host_files, "Open files of the whole host.", FS),
    sysctl("fs.nr_open", _ceiling, "The highest limit that a process can have.", FS),
)

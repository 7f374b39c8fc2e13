"""The command: plan, question, run, report; and the host as it was whatever happens."""

import datetime
import json
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tuning.quantity import show_bytes
from tuning.situation import Situation
from tuning.verify.carried import baseline
from tuning.verify.change import choose
from tuning.verify.figures import ACKS_PER_SECOND
from tuning.verify.host_change import HostValues, check_leftovers
from tuning.verify.interrupt import Interrupted, ended_by_signals
from tuning.verify.load import CONNECTIONS, RECORD_BYTES, Load
from tuning.verify.page import page
from tuning.verify.plan import Plan, plan, plan_text
from tuning.verify.report import Report
from tuning.verify.run import Verification
from tuning.verify.turn import Turn, check_room, turns_below

NEEDS_YES = "it changes this host, which needs a yes: --yes"
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Files:
    """The outputs of the report besides the terminal."""

    json: Path | None = None
    html: Path | None = None
    properties: Path | None = None

    def write(self, report: Report) -> None:
        """Raises OSError."""
        if self.json is not None:
            self.json.write_text(json.dumps(report.as_json(), indent=2) + "\n")
        if self.html is not None:
            self.html.write_text(page(report))
        if self.properties is not None:
            self.properties.write_text(report.properties())


@dataclass(frozen=True, slots=True)
class Request:
    """The request of the command line. confirm: the answer to the question whether this host may be
    changed; None where no terminal can be asked."""

    seconds: float
    tries: Sequence[str] = ()
    dry_run: bool = False
    confirm: Callable[[str], bool] | None = None
    files: Files = field(default_factory=Files)


def verify(situation: Situation, request: Request, say: Say, show: Say) -> int:
    """The exit code. say: progress. show: the result.

    Raises WrongTry, NoRoom, LeftBehind, TurnFailed, OSError.
    """
    folder, load = _folder(situation), _load(situation)
    check_leftovers(folder)
    choice = choose(situation, request.tries)
    made = plan(choice, request.seconds)
    if request.dry_run:
        show(plan_text(made, str(folder), load.max_bytes))
        return 0
    if not may_change_host(made, request):
        made = plan(choice.without_host(NEEDS_YES), request.seconds)
    say(plan_text(made, str(folder), load.max_bytes))
    if made.changes:
        check_room(folder, load.max_bytes)
    return prove(
        situation, made, request.files, turns_below(folder, load.batch_bytes, load.max_bytes), say, show
    )


def prove(situation: Situation, made: Plan, files: Files, turn: Turn, say: Say, show: Say) -> int:
    """Runs the plan and reports, also after a signal. Raises as `verify` does."""
    begun, start = f"{datetime.datetime.now():%Y-%m-%d %H:%M}", time.monotonic()
    signalled, code = "", 0
    host = HostValues(situation.host.roots, _folder(situation))
    verification = Verification(made, baseline(situation), turn, host, say)
    try:
        with ended_by_signals(), host:
            if made.changes:
                verification.run()
    except Interrupted as interrupted:
        signalled, code = str(interrupted), interrupted.exit_code
    seconds = time.monotonic() - start
    report = Report(
        _host_line(situation),
        begun,
        seconds,
        _load_line(_load(situation), made.load_s),
        tuple(verification.outcomes),
        (*made.omitted, *verification.late),
        signalled,
    )
    files.write(report)
    show(report.text())
    return code


def may_change_host(made: Plan, request: Request) -> bool:
    """Whether the host may be changed: asks the user if the plan changes it."""
    on_host = [change for change in made.changes if change.on_host]
    if not on_host:
        return True
    lines = "".join(f"\n  {change.label}  (now {change.remedy.old})" for change in on_host)
    question = (
        f"These values of this host change in turns, and go back unless they help:{lines}\nChange them?"
    )
    return request.confirm is not None and request.confirm(question)


def _folder(situation: Situation) -> Path:
    return Path(situation.host.log_dirs[0])


def _load(situation: Situation) -> Load:
    """Bulk batches as large as the workload's, where they are known."""
    known = situation.knows("batch_bytes")
    return Load(0.0, situation.workload.batch_bytes) if known else Load(0.0)


def _load_line(load: Load, seconds: float) -> str:
    return (
        f"{seconds:.1f} s at most: {ACKS_PER_SECOND} acks/s alone, then beside {CONNECTIONS} connections that produce "
        f"batches of {show_bytes(load.records * RECORD_BYTES)}; fetches from the page cache, then from the disk"
    )


def _host_line(situation: Situation) -> str:
    processors, memory = situation.host.processors, situation.host.memory.usable_bytes
    room = f", {show_bytes(memory)}" if memory else ""
    disks = ", ".join(f"{disk.name} ({disk.kind})" for disk in situation.host.disks) or "disk unknown"
    return f"{platform.node()}: {processors.usable_cores:g} cores{room}, {disks}, Linux {platform.release()}"

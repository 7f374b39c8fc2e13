"""Findings, proposals and answers as text."""

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence

from kbroker.config.counts import counted
from tuning.broker.proposal import Proposal
from tuning.coefficients import Coefficients
from tuning.finding import ORDER, Finding, Severity
from tuning.quantity import show_rate, show_seconds
from tuning.sizing.answer import Answer

WIDTH = 110
MARGIN = " " * 9
QUIET = (Severity.OK, Severity.UNSEEN)


def findings_text(findings: Sequence[Finding], everything: bool) -> str:
    """One block per finding; values that are fine or not visible only on request."""
    return "\n".join(_finding_lines(findings, everything))


def _finding_lines(findings: Sequence[Finding], everything: bool) -> Iterator[str]:
    for finding in findings:
        if everything or finding.severity not in QUIET:
            yield from _block(finding)
            yield ""
    counts = Counter(finding.severity for finding in findings)
    yield ", ".join(f"{counts[severity]} {severity.value}" for severity in ORDER)
    if not (counts[Severity.SERIOUS] or counts[Severity.ADVICE]):
        yield "No finding: this check knows no improvement for this host."
    elif not everything:
        yield "All findings: --all. The commands as a script, and one that undoes them: kbroker tune script [--undo]"


def _block(finding: Finding) -> Iterator[str]:
    yield f"{finding.severity.value:<8} {finding.knob}"
    values = f"now {finding.now_shown or '?'}" + (
        f", proposed {finding.proposed_shown}" if finding.proposed else ""
    )
    yield from _wrapped(values)
    yield from _wrapped(finding.why)
    yield from _wrapped(f"[{finding.source}]")
    if finding.remedy is not None:
        yield f"{MARGIN}apply: {finding.remedy.apply}"
        if finding.remedy.undo:
            yield f"{MARGIN}undo:  {finding.remedy.undo}"


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=MARGIN, subsequent_indent=MARGIN, break_on_hyphens=False)


def properties_text(proposals: Sequence[Proposal], left_out: Sequence[str] = ()) -> str:
    """Lines for a properties file, each below its reason; then, as comments, what was left out and
    why."""
    blocks = [f"{_comment(f'{each.why} [{each.source}]')}{each.key}={each.value}\n" for each in proposals]
    if not proposals:
        blocks.append("# No setting needs to change on this host for this workload.\n")
    blocks.extend(map(_comment, left_out))
    return "\n".join(blocks)


def _comment(text: str) -> str:
    return "".join(f"# {line}\n" for line in textwrap.wrap(text, WIDTH, break_on_hyphens=False))


def answer_text(answer: Answer) -> str:
    """A row for each resource, then what they come to."""
    return "\n".join(_answer_lines(answer))


def _answer_lines(answer: Answer) -> Iterator[str]:
    for need in answer.needs:
        share = "  ?" if need.share is None else f"{need.share:5.0%}" if need.share < 100 else ">9999%"
        yield f"{need.resource:<16} {share:>6}  needs {need.needed}; has {need.have}"
        yield from textwrap.wrap(need.how, WIDTH, initial_indent=" " * 25, subsequent_indent=" " * 25)
    yield ""
    if not answer.fits:
        yield "It does not fit."
    elif answer.unknown:
        yield f"What is known fits. Not known: {', '.join(answer.unknown)}."
    else:
        yield "It fits."
    for need in answer.needs:
        if need.endless:
            yield f"Records are kept forever: {need.resource} is {need.needed}. Set {need.change}."
    if answer.breaks_at is None:
        yield f"{answer.first.resource}: not enough even for what does not depend on the rate."
    else:
        yield f"First limit: {answer.first.resource}, at {show_rate(answer.breaks_at)} written."
    yield f"Cheapest change: {answer.first.change}."
    if answer.horizon_s is not None:
        yield f"A consumer may lag {show_seconds(answer.horizon_s)} and still be served from memory."
    processes = counted(answer.network_processes, "network process", "network processes")
    yield f"It keeps {processes} and {counted(answer.io_workers, 'IO worker')} busy."
    yield from answer.notes


def coefficients_text(measured: Coefficients) -> str:
    """The figures of a bench."""
    rows = (
        ("appends, synced at the end", show_rate(measured.write_rate)),
        ("sequential cold reads", show_rate(measured.cold_read_rate)),
        (
            "fdatasync of 16 KiB p50 / p99",
            f"{measured.sync_p50_s * 1e3:.3g} / {measured.sync_p99_s * 1e3:.3g} ms",
        ),
        (
            "4 KiB reads / writes at random",
            f"{measured.read_iops:,.0f} / {measured.write_iops:,.0f} a second",
        ),
        ("sendfile over loopback", show_rate(measured.loopback_rate)),
        ("  CPU of sender / receiver", f"{measured.send_cpu:.3g} / {measured.receive_cpu:.3g} s/GB"),
        ("TLS, CPU of one side", f"{measured.tls_cpu:.3g} s/GB"),
        ("memory copied by one core", show_rate(measured.copy_rate)),
        ("a reading of the clock", f"{measured.clock_s * 1e9:.0f} ns"),
    )
    return "\n".join(f"{name:<32} {value}" for name, value in rows)

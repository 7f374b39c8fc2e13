"""Shell scripts for the administrator: one that applies, one that takes back. This package runs
neither."""

import shlex
from collections.abc import Iterator, Sequence

from tuning.finding import Finding, Means, Remedy, Severity

SYSCTL_FILE = "/etc/sysctl.d/60-kbroker.conf"
UDEV_FILE = "/etc/udev/rules.d/60-kbroker.rules"
NOT_KEPT = "# it holds until the next boot: put the line above into what runs at boot, too"
WORTH = (Severity.SERIOUS, Severity.ADVICE)


def apply_script(findings: Sequence[Finding]) -> str:
    """Host-wide values now and after the next boot; mounts, limits and what wants a hand as
    comments."""
    return "\n".join(_apply_lines(_worth(findings))) + "\n"


def undo_script(findings: Sequence[Finding]) -> str:
    """The values that were there when this was printed."""
    return "\n".join(_undo_lines(_worth(findings))) + "\n"


def _worth(findings: Sequence[Finding]) -> list[tuple[Finding, Remedy]]:
    return [
        (finding, finding.remedy)
        for finding in findings
        if finding.severity in WORTH and finding.remedy is not None
    ]


def _apply_lines(pairs: Sequence[tuple[Finding, Remedy]]) -> Iterator[str]:
    yield "#!/bin/sh"
    yield "# Read it before you run it, as root; print the way back first: kbroker tune script --undo > undo.sh"
    yield "set -eu"
    for finding, remedy in pairs:
        yield ""
        yield f"# {finding.knob}: {' '.join(finding.why.split())} [{finding.source}]"
        if remedy.means is Means.SYSCTL:
            yield remedy.apply
        elif remedy.means is Means.SYSFS:
            yield remedy.apply
            if not list(_udev(remedy)):
                yield NOT_KEPT
        else:
            yield from _by_hand(remedy)
    for file, lines in _kept(pairs).items():
        if lines:
            yield ""
            yield f"cat >> {file} <<'END'"  # what an earlier script put there needs no change now
            yield from lines
            yield "END"


def _kept(pairs: Sequence[tuple[Finding, Remedy]]) -> dict[str, list[str]]:
    """Lines for the next boot, by file."""
    kept: dict[str, list[str]] = {SYSCTL_FILE: [], UDEV_FILE: []}
    for _, remedy in pairs:
        if remedy.means is Means.SYSCTL:
            kept[SYSCTL_FILE].append(f"{remedy.target} = {remedy.new}")
        elif remedy.means is Means.SYSFS:
            kept[UDEV_FILE].extend(_udev(remedy))
    return kept


def _without(file: str, lines: Sequence[str]) -> Iterator[str]:
    """The file keeps the lines of other scripts; it is removed if there are none."""
    matched = " ".join(f"-e {shlex.quote(line)}" for line in lines)
    yield f"if [ -f {file} ]; then"
    yield f"    others=$(grep -vxF {matched} {file} || :)"
    yield f'    if [ -n "$others" ]; then printf \'%s\\n\' "$others" > {file}; else rm -f {file}; fi'
    yield "fi"


def _by_hand(remedy: Remedy) -> Iterator[str]:
    place = {
        Means.MOUNT: "in /etc/fstab, too: ",
        Means.PROPERTY: "in the broker's properties: ",
        Means.LIMIT: "[Service] of the broker's systemd unit: ",
    }.get(remedy.means, "by hand: ")
    yield f"# {place}{remedy.apply}"


def _udev(remedy: Remedy) -> Iterator[str]:
    """A rule that sets a queue's attribute when its disk comes; other sysfs values have none."""
    parts = remedy.target.split("/")
    if parts[0] == "block" and len(parts) == 4:
        yield f'ACTION=="add|change", KERNEL=="{parts[1]}", ATTR{{{parts[2]}/{parts[3]}}}="{remedy.new}"'


def _undo_lines(pairs: Sequence[tuple[Finding, Remedy]]) -> Iterator[str]:
    yield "#!/bin/sh"
    yield "set -eu"
    for file, lines in _kept(pairs).items():
        if lines:
            yield from _without(file, lines)
    for _, remedy in pairs:
        if remedy.means in (Means.SYSCTL, Means.SYSFS) and remedy.old:
            yield remedy.undo

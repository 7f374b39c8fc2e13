"""The changes that are tried: those of `--try`, or of the check, or, if it proposes none, usual
alternatives. Also the changes that are left out, with the reasons."""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from kbroker.config.broker import BROKER, BrokerConfig
from kbroker.config.setting import ConfigError, render
from tuning.check import check
from tuning.finding import Finding, Means, Remedy
from tuning.host.roots import chosen, text
from tuning.script import WORTH
from tuning.situation import Situation
from tuning.verify.carried import CARRIED, NOT_SHOWN
from tuning.verify.host_change import HOST, path_of

SYSCTL = re.compile(r"(vm|net)(\.[a-z0-9_]+)+")
SYSFS = re.compile(r"/sys/((block/[\w!-]+/queue|kernel/mm/transparent_hugepage)/[a-z_]+)")
PAIRS = {"dirty_bytes": "dirty_ratio", "dirty_background_bytes": "dirty_background_ratio"}
"""Setting one of a pair sets the other to 0 (vm.rst)."""
ASKED = "named with --try"
NO_ROOT = "needs root, on the host itself"


class WrongTry(ValueError):
    """An invalid --try, with the reason."""


@dataclass(frozen=True, slots=True)
class Change:
    """One setting with a new value. why: the reason for the proposal."""

    remedy: Remedy
    why: str

    @property
    def target(self) -> str:
        return self.remedy.target

    @property
    def on_host(self) -> bool:
        return self.remedy.means in HOST

    @property
    def label(self) -> str:
        """`key=value`, as --try takes it."""
        return f"{'/sys/' if self.remedy.means is Means.SYSFS else ''}{self.target}={self.remedy.new}"


@dataclass(frozen=True, slots=True)
class Omitted:
    """Advice that is not tried, and why."""

    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Choice:
    """changes: in the order in which they are tried."""

    changes: tuple[Change, ...]
    omitted: tuple[Omitted, ...] = ()

    def without_host(self, why: str) -> "Choice":
        """The choice without changes of the host. why: the reason, for the report."""
        out = tuple(Omitted(change.label, why) for change in self.changes if change.on_host)
        return Choice(tuple(change for change in self.changes if not change.on_host), (*self.omitted, *out))


def choose(situation: Situation, tries: Sequence[str] = ()) -> Choice:
    """The changes to try: only `tries`, if there are any. Raises WrongTry."""
    omitted: list[Omitted] = []
    if tries:
        expected = [Change(remedy_of(situation, each), ASKED) for each in tries]
        if len({change.target for change in expected}) < len(expected):
            raise WrongTry("--try: two values for one key; try them one after the other")
    else:
        advice = [finding for finding in check(situation) if finding.severity in WORTH]
        omitted = [out for finding in advice if (out := _omitted(finding))]
        expected = [Change(each.remedy, each.why) for each in advice if each.remedy and not _omitted(each)]
        expected = expected or list(alternatives(situation))
    first: dict[str, Change] = {}
    for change in expected:
        first.setdefault(change.target, change)
    writable = {target: _writable(situation, change) for target, change in first.items()}
    omitted += [Omitted(first[target].label, NO_ROOT) for target, can in writable.items() if not can]
    return Choice(tuple(change for target, change in first.items() if writable[target]), tuple(omitted))


def _omitted(finding: Finding) -> Omitted | None:
    """The reason why a finding's advice is not tried; None if it is tried."""
    remedy = finding.remedy
    if remedy is None or remedy.means in (Means.HAND, Means.MOUNT, Means.LIMIT):
        return Omitted(finding.knob, "it is changed by hand" if remedy else "it has no remedy")
    if why := NOT_SHOWN.get(remedy.target):
        return Omitted(finding.knob, why)
    if remedy.means is Means.PROPERTY and remedy.target not in CARRIED:
        return Omitted(finding.knob, "the load does not reach it")
    return None


def _writable(situation: Situation, change: Change) -> bool:
    if not change.on_host:
        return True
    return os.access(path_of(situation.host.roots, change.remedy.means, change.target), os.W_OK)


def alternatives(situation: Situation) -> Iterator[Change]:
    """Changes to try if the check proposes none: one more process of each kind, within the number
    of cores."""
    usable = situation.host.processors.usable_cores
    for key, now in (
        ("num.network.threads", situation.network_processes),
        ("num.io.threads", situation.io_workers),
    ):
        if now + 1 <= usable:
            yield Change(
                _property(situation, key, str(now + 1)), "the check proposes nothing; this is the next value"
            )


def remedy_of(situation: Situation, pair: str) -> Remedy:
    """A `key=value` of --try: a setting of the broker, a sysctl of vm or net, a path of a queue or
    of huge pages below /sys. Raises WrongTry."""
    key, equals, value = (part.strip() for part in pair.partition("="))
    if not equals or not key:
        raise WrongTry(f"--try {pair!r} is not key=value")
    roots = situation.host.roots
    if key in BROKER:
        return _property(situation, key, value)
    if SYSCTL.fullmatch(key):
        remedy = Remedy(Means.SYSCTL, key, value, _present(roots.sysctl(key), key))
        return _paired(situation, remedy)
    if found := SYSFS.fullmatch(key):
        now = chosen(text(roots.sys / found[1]))
        return Remedy(Means.SYSFS, found[1], value, _present(now, key))
    raise WrongTry(f"--try {key} is no setting of the broker, no sysctl of vm or net, no queue below /sys")


def _present(now: str | None, key: str) -> str:
    if now is None:
        raise WrongTry(f"--try {key} cannot be read here")
    return now


def _paired(situation: Situation, remedy: Remedy) -> Remedy:
    """The restoring change for a value that another one replaces."""
    name = remedy.target.removeprefix("vm.")
    partner = PAIRS.get(name) or next((key for key, other in PAIRS.items() if other == name), "")
    if not partner or remedy.old != "0":
        return remedy
    other = f"vm.{partner}"
    return replace(remedy, old=_present(situation.host.sysctl(other), other), old_target=other)


def _property(situation: Situation, key: str, value: str) -> Remedy:
    if key not in CARRIED:
        raise WrongTry(f"--try {key} makes no difference to this load")
    try:
        expected = BrokerConfig({key: value}).value(key)
    except ConfigError as error:
        raise WrongTry(str(error).splitlines()[0]) from error
    if render(expected) == render(situation.config.value(key)):
        raise WrongTry(f"--try {key} is {value} already")
    return Remedy(Means.PROPERTY, key, value, situation.config.static.get(key, ""))

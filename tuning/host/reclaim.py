"""Proactive reclaim: the kernel evicts pages although memory is not short (DAMON).

A thread, kdamond, samples which pages are touched, and pages out those that were not for a while.
Clean pages of the page cache cost it nothing, so it takes these first.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tuning.host.roots import Roots, number, text

ADMIN = "kernel/mm/damon/admin/kdamonds"
MODULE = "module/damon_reclaim/parameters"
THREAD = "kdamond"
MICROSECONDS = 1e6


@dataclass(frozen=True, slots=True)
class Scheme:
    """after_s: time without access before a page is evicted. bytes_per_s: the maximum rate; None
    without a quota. switch: the command that turns it off."""

    after_s: float
    bytes_per_s: float | None
    switch: str


@dataclass(frozen=True, slots=True)
class Reclaim:
    """schemes: those that evict page cache. hidden: a thread of DAMON runs, but only root can see
    its schemes."""

    schemes: tuple[Scheme, ...] = ()
    hidden: bool = False

    @property
    def first(self) -> Scheme | None:
        """The scheme with the shortest time."""
        return min(self.schemes, key=lambda scheme: scheme.after_s, default=None)


def reclaim_of(roots: Roots) -> Reclaim:
    """All schemes that are visible."""
    admin = roots.sys / ADMIN
    schemes = [*_of_module(roots.sys / MODULE)]
    for kdamond in _numbered(admin):
        if text(kdamond / "state") == "on":
            schemes += _of_kdamond(kdamond, f"echo off > /sys/{ADMIN}/{kdamond.name}/state")
    may_be_hidden = not schemes and _is_closed(admin)
    return Reclaim(tuple(schemes), may_be_hidden and _has_thread(roots))


def _of_module(folder: Path) -> Iterator[Scheme]:
    """damon_reclaim, which watches all memory by parameters of a module."""
    if text(folder / "enabled") != "Y":
        return
    after_us, quota = number(folder / "min_age"), number(folder / "quota_sz")
    yield Scheme(
        (after_us or 0) / MICROSECONDS,
        _rate(quota, number(folder / "quota_reset_interval_ms")),
        f"echo N > /sys/{MODULE}/enabled",
    )


def _of_kdamond(kdamond: Path, switch: str) -> Iterator[Scheme]:
    for context in _numbered(kdamond / "contexts"):
        if text(context / "operations") != "paddr":  # the others watch the mappings of a process
            continue
        interval_us = number(context / "monitoring_attrs/intervals/aggr_us") or 0
        for scheme in _numbered(context / "schemes"):
            if text(scheme / "action") != "pageout" or _spares_files(scheme):
                continue
            age, quotas = number(scheme / "access_pattern/age/min") or 0, scheme / "quotas"
            rate = _rate(number(quotas / "bytes"), number(quotas / "reset_interval_ms"))
            yield Scheme(age * interval_us / MICROSECONDS, rate, switch)


def _spares_files(scheme: Path) -> bool:
    """Whether filters keep it from the page cache: the first that fits a page decides, and what
    none fits is spared behind one that allows."""
    for kind in ("filters", "core_filters", "ops_filters"):
        allows = False
        for each in _numbered(scheme / kind):
            allows = text(each / "allow") == "Y"  # before Linux 6.14 every filter refuses
            expected = {"anon": "N", "unmapped": "Y"}.get(text(each / "type") or "")
            if expected is None:
                allows = True  # of a cgroup, an age, addresses: it may be of this page or not
                break
            if text(each / "matching") == expected:
                if not allows:
                    return True
                break
        else:
            if allows:
                return True
    return False


def _rate(quota: int | None, interval_ms: int | None) -> float | None:
    return quota * 1000 / interval_ms if quota and interval_ms else None


def _numbered(folder: Path) -> list[Path]:
    try:
        return sorted(each for each in folder.iterdir() if each.name.isdecimal())
    except OSError:
        return []


def _is_closed(admin: Path) -> bool:
    """Whether the files exist, but are not readable for this user."""
    return any(text(kdamond / "state") is None for kdamond in _numbered(admin))


def _has_thread(roots: Roots) -> bool:
    return any((text(each / "comm") or "").startswith(THREAD) for each in _numbered(roots.proc))

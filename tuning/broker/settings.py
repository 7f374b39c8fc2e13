"""Problems of the settings, independent of the proposals."""

from collections.abc import Iterator

from kbroker.config.processes import cores_to_poll
from kbroker.config.sites import sites_of
from tuning.finding import Finding, Means, Remedy, Severity
from tuning.host.mounts import mounts_of
from tuning.knobs.knob import by_hand
from tuning.situation import Situation


def findings(situation: Situation) -> list[Finding]:
    """Findings about log.dirs, sites and processes."""
    return [
        *_shared_disks(situation),
        *_shared_sites(situation),
        *_processes(situation),
        *_polling(situation),
    ]


def _shared_disks(situation: Situation) -> Iterator[Finding]:
    for mount in situation.host.mounts:
        if len(mount.dirs) > 1:
            yield Finding(
                "log.dirs",
                Severity.NOTE,
                ", ".join(mount.dirs),
                "",
                f"All of them are on {mount.point}: they share its speed, its space and its failure.",
                "`kbroker docs durability`, log dirs that fail",
            )


def _shared_sites(situation: Situation) -> Iterator[Finding]:
    sites = sites_of(situation.config)
    places: dict[str, tuple[str, set[int]]] = {}
    for site in sites if len(sites) > 1 else ():
        for mount in mounts_of(situation.host.roots, site.log_dirs):
            places.setdefault(mount.device, (mount.point, set()))[1].add(site.number)
    for point, numbers in places.values():
        if len(numbers) > 1:
            yield Finding(
                "kbroker.replica.sites",
                Severity.SERIOUS,
                situation.config.get_str("kbroker.replica.sites"),
                "a file system for each site",
                f"Sites {', '.join(map(str, sorted(numbers)))} are both on {point}, so its failure loses all copies.",
                "ADR 0008",
                by_hand("give each site its own disks"),
            )


def _processes(situation: Situation) -> Iterator[Finding]:
    cores = situation.host.processors.cores
    busy = situation.network_processes + situation.io_workers
    if busy > 2 * cores and situation.network_processes > cores:
        yield Finding(
            "num.network.threads",
            Severity.ADVICE,
            str(situation.network_processes),
            "unset",
            f"They are processes, not threads: {busy} of them with the IO workers for {cores} cores.",
            "`kbroker docs config`",
            by_hand("leave num.network.threads and num.io.threads unset: the defaults follow the cores"),
        )


def _polling(situation: Situation) -> Iterator[Finding]:
    cores = situation.host.processors.usable_cores
    needed = cores_to_poll(situation.network_processes, situation.io_workers)
    for key in ("kbroker.busy.poll.network.us", "kbroker.busy.poll.io.us"):
        now = situation.config.get_int(key)
        if now and cores < needed:
            yield Finding(
                key,
                Severity.ADVICE,
                str(now),
                "0",
                f"A process that polls takes a core: these processes need {needed} cores, and {cores:g} can be used.",
                "`kbroker docs lab/ack-latency`",
                Remedy(Means.PROPERTY, key, "0", str(now)),
            )

"""Knobs of the block devices behind log.dirs."""

from collections.abc import Sequence

from tuning.finding import Means, Remedy, Severity
from tuning.host.disks import Disk
from tuning.knobs.knob import FINE, Assessment, Knob, by_hand
from tuning.situation import Situation

READ_AHEAD_KB = (128, 16384)
FEWEST_REQUESTS = 64
HEAVY = ("bfq", "kyber", "cfq")


def disks(situation: Situation) -> Sequence[tuple[str, Disk]]:
    """Every disk, by its name."""
    return [(disk.name, disk) for disk in situation.host.disks]


def _change(disk: Disk, name: str, new: str, now: str) -> Remedy:
    return Remedy(Means.SYSFS, f"{disk.queue}/{name}", new, now)


def _scheduler(_: Situation, disk: Disk, now: str) -> Assessment:
    rotating = disk.kind == "hdd"
    expected = "mq-deadline" if rotating else "none"
    if now == expected or expected not in disk.schedulers or not (rotating or now in HEAVY):
        return FINE
    because = f"This disk {'rotates' if rotating else 'does not rotate'} ({disk.kind})."
    return Assessment(Severity.ADVICE, expected, because, _change(disk, "scheduler", expected, now))


def _read_ahead(_: Situation, disk: Disk, now: str) -> Assessment:
    least, most = READ_AHEAD_KB
    if least <= int(now) <= most:
        return FINE
    expected = str(least if int(now) < least else most)
    because = (
        "A smaller value splits the reads of kbroker."
        if int(now) < least
        else "A larger value reads data that no client requested."
    )
    return Assessment(Severity.ADVICE, expected, because, _change(disk, "read_ahead_kb", expected, now))


def _requests(_: Situation, disk: Disk, now: str) -> Assessment:
    if int(now) >= FEWEST_REQUESTS:
        return FINE
    expected = str(FEWEST_REQUESTS)
    return Assessment(Severity.ADVICE, expected, "", _change(disk, "nr_requests", expected, now))


def _throttle(situation: Situation, disk: Disk, now: str) -> Assessment:
    if now != "0" or not situation.workload.durable:
        return FINE
    because = "It is off here, although acks wait for this disk."
    return Assessment(Severity.ADVICE, "-1", because, _change(disk, "wbt_lat_usec", "-1", now))


def _cache(situation: Situation, _: Disk, now: str) -> Assessment:
    if now != "write back":
        return FINE
    because = "Volatile unless the device has a battery or capacitors; each fdatasync empties it."
    return Assessment(Severity.NOTE if situation.workload.durable else Severity.OK, "", because)


def _merges(_: Situation, disk: Disk, now: str) -> Assessment:
    if now != "2":
        return FINE
    return Assessment(Severity.ADVICE, "0", "It is off here.", _change(disk, "nomerges", "0", now))


def _trim(situation: Situation, disk: Disk, now: str) -> Assessment:
    discarded = all("discard" in mount.options for mount in situation.host.mounts)
    if now == "on" or not disk.discards or discarded:
        return FINE
    return Assessment(
        Severity.NOTE, "on", "", by_hand("systemctl enable --now fstrim.timer (undo: disable --now)")
    )


def _read_trim(situation: Situation, _: Disk) -> str | None:
    timer = situation.host.upkeep.trim_timer
    return None if timer is None else "on" if timer else "off"


def _text(value: int | None) -> str | None:
    return None if value is None else str(value)


BLOCK = "Linux, Documentation/block/queue-sysfs.rst"

DISK: tuple[Knob[Disk], ...] = (
    Knob(
        "queue/scheduler",
        disks,
        lambda _, disk: disk.scheduler,
        _scheduler,
        "Fair queueing costs CPU and latency, which is worth it only on a rotating disk; elsewhere none and "
        "mq-deadline are both fine.",
        "Linux, Documentation/block/bfq-iosched.rst",
    ),
    Knob(
        "queue/read_ahead_kb",
        disks,
        lambda _, disk: _text(disk.read_ahead_kb),
        _read_ahead,
        "kbroker itself reads 4 to 32 MiB ahead of a lagging consumer, so only extreme values matter.",
        "kbroker/io/read_ahead.py; `kbroker docs lab/cold-reader`",
    ),
    Knob(
        "queue/nr_requests",
        disks,
        lambda _, disk: _text(disk.nr_requests),
        _requests,
        "With a short queue, syncs wait behind bulk writes that wait for a place.",
        BLOCK,
    ),
    Knob(
        "queue/wbt_lat_usec",
        disks,
        lambda _, disk: _text(disk.wbt_lat_usec),
        _throttle,
        "Throttled write-back keeps bulk writes from starving reads and syncs.",
        BLOCK,
    ),
    Knob(
        "queue/write_cache",
        disks,
        lambda _, disk: disk.write_cache,
        _cache,
        "The type of write cache that the device reports.",
        BLOCK,
    ),
    Knob(
        "queue/nomerges",
        disks,
        lambda _, disk: _text(disk.nomerges),
        _merges,
        "Write-back depends on merging adjacent pages; only direct I/O gains without merging.",
        BLOCK,
    ),
    Knob(
        "fstrim.timer",
        disks,
        _read_trim,
        _trim,
        "Without trim a flash disk keeps copying the blocks of deleted segments, and slows down when nearly full.",
        "util-linux, fstrim(8)",
    ),
)

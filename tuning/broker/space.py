"""Settings about room on the disks: segments, blocks ahead of logs, retention."""

import math
from collections.abc import Iterator

from kbroker.config.broker import BROKER
from tuning.broker.proposal import Proposal
from tuning.finding import Severity
from tuning.quantity import show_bytes, show_rate, show_seconds
from tuning.situation import Situation

MiB = 1 << 20
MIN_SEGMENT = 64 * MiB
STEADY = 20e6  # bytes/s from which on write-back is hardly ever idle
ACTIVE_SHARE = 0.2  # of the disks that active segments may take
FULL = 0.8
BENCH = "`kbroker docs benchmarks`"


def segments(situation: Situation) -> Iterator[Proposal]:
    """Active segments stay, whatever retention says, so many partitions want small ones."""
    size = situation.config.get_int("log.segment.bytes")
    room = situation.room_bytes
    few = situation.replicas * size <= (room or 0) * ACTIVE_SHARE
    if not room or few or not situation.knows("partitions"):
        return
    share = int(room * ACTIVE_SHARE) // situation.replicas
    fitting = max(MIN_SEGMENT, 1 << (max(share, 1).bit_length() - 1))
    if fitting < size:
        why = (
            f"{situation.replicas} active segments of {show_bytes(size)} may take "
            f"{show_bytes(situation.replicas * size)} of {show_bytes(room)} (free, or already theirs), and retention "
            "deletes closed ones only"
        )
        yield Proposal("log.segment.bytes", str(fitting), why, "`kbroker docs config`, log.segment.bytes")


def reserving(situation: Situation) -> Iterator[Proposal]:
    """Blocks ahead of fast logs on ext4, in chunks: whole segments of quiet logs are
    unused space."""
    config, key = situation.config, "kbroker.log.reserve.bytes"
    on_ext4 = any(mount.kind == "ext4" for mount in situation.host.mounts)
    if not on_ext4 or not situation.knows("write_rate"):
        return
    rate = situation.workload.disk_write_rate
    if not config.get_int(key) and not config.get_bool("log.preallocate") and rate >= STEADY:
        why = f"at {show_rate(rate)} appends wait while ext4's write-back allocates blocks: p99 15.9 instead of 4.6 ms"
        yield Proposal(key, str(BROKER[key].default), why, f"{BENCH}; ADR 0019")
    if config.get_bool("log.preallocate") and config.get_int(key):
        why = f"{key} reserves blocks ahead of the logs that need them; this takes a whole segment for each of them"
        yield Proposal("log.preallocate", "false", why, f"{BENCH}; ADR 0019")


def retention(situation: Situation) -> Iterator[Proposal]:
    """A bound by size where time alone would fill the disks: old records go instead of produce
    being refused."""
    load, room = situation.workload, situation.room_bytes
    bounded = situation.config.get_int("log.retention.bytes") != -1
    endless = load.retention_s == math.inf  # all of it is requested: `size` shows what that means
    if room is None or bounded or endless or not situation.knows("write_rate", "partitions"):
        return
    needed = load.disk_write_rate * load.retention_s
    if needed <= room * FULL:
        return
    logs = max(1, load.partitions * load.copies)
    share = int(room * FULL) // logs
    segment = min(situation.config.get_int("log.segment.bytes"), share // 2)
    expected = max(share - segment, MiB)
    kept_s = expected * logs / load.disk_write_rate
    why = (
        f"this deletes records earlier than the {show_seconds(load.retention_s)} that are set: after "
        f"{show_seconds(kept_s)} at {show_rate(load.disk_write_rate)}, and sooner in partitions that get more than "
        f"others. Without a bound {show_bytes(needed)} would be kept, and produce is refused when the disks are full. "
        f"The logs have {show_bytes(room)} (free and theirs already), of which {FULL:.0%} may be used. To keep more: "
        "more disk, or compression"
    )
    yield Proposal(
        "log.retention.bytes", str(expected), why, "arithmetic; `kbroker docs durability`", Severity.SERIOUS
    )

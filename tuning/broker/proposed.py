"""The settings that each rule may propose and the value it gives them, for docs/knobs.md."""

from tuning.broker.rules import BUSY, CPU_SHARE, MIN_ARENA, RECORDS_NEVER
from tuning.broker.space import ACTIVE_SHARE, FULL, MIN_SEGMENT, STEADY
from tuning.quantity import show_rate

PROPOSED: dict[str, tuple[tuple[str, ...], str]] = {
    "places": (
        ("log.dirs", "kbroker.replica.sites", "default.replication.factor"),
        "the folders of --dir; with --copies N, N groups of them on different file systems, and N",
    ),
    "processes": (
        ("num.network.threads", "num.io.threads"),
        f"with a quota, half and a quarter of its cores; otherwise so many that each is {CPU_SHARE:.0%} busy",
    ),
    "arena": (
        ("kbroker.arena.bytes",),
        f"all arenas within a quarter of memory, at least {MIN_ARENA}; twice as much if {BUSY:.0%} were in use",
    ),
    "partition_table": (("kbroker.max.partitions",), "5/4 of all replicas, in thousands"),
    "durability": (
        ("kbroker.write.caching", "log.flush.interval.messages"),
        f"false with --durable; {RECORDS_NEVER} (never by count)",
    ),
    "remote_buffers": (("socket.send.buffer.bytes", "socket.receive.buffer.bytes"), "-1: the kernel chooses"),
    "local_congestion": (
        ("kbroker.local.congestion.control",),
        "empty if the kernel lacks the configured one",
    ),
    "backlog": (
        ("socket.listen.backlog.size",),
        "the number of clients, at most net.core.somaxconn and 4096",
    ),
    "segments": (
        ("log.segment.bytes",),
        f"active segments within {ACTIVE_SHARE:.0%} of the disk space, at least {MIN_SEGMENT}",
    ),
    "reserving": (
        ("kbroker.log.reserve.bytes", "log.preallocate"),
        f"the default from {show_rate(STEADY)} on, on ext4; false",
    ),
    "retention": (
        ("log.retention.bytes",),
        f"the log's share of {FULL:.0%} of the disk space (free space and present logs), minus one segment",
    ),
}

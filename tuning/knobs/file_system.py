"""Knobs of the file systems behind log.dirs."""

from collections.abc import Callable, Sequence

from tuning.finding import Means, Remedy, Severity
from tuning.host.mounts import UNKNOWN, Mount
from tuning.knobs.knob import FINE, Assessment, Knob, by_hand
from tuning.quantity import show_bytes
from tuning.situation import Situation

PROVEN = ("ext4", "xfs")
REMOTE = ("nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "glusterfs", "fuse.sshfs")
MEMORY = ("tmpfs", "ramfs")
COPYING = ("btrfs", "zfs", "bcachefs", "f2fs", "nilfs2")
UNSAFE = ("nobarrier", "barrier=0")
LITTLE, SCARCE = 0.15, 0.05
FEWEST_INODES = 5  # files a log has at least, a rolled segment twice as many
SWEPT = ("/tmp", "/var/tmp")

EXT4 = "Linux, Documentation/admin-guide/ext4.rst"
FSTRIM = "util-linux, fstrim(8)"


def mounts(situation: Situation) -> Sequence[tuple[str, Mount]]:
    """Every file system, by its mount point."""
    return [(mount.point, mount) for mount in situation.host.mounts]


def _kind(_: Situation, __: Mount, now: str) -> Assessment:
    if now in PROVEN:
        return FINE
    if now in MEMORY:
        return Assessment(
            Severity.SERIOUS, "", "Nothing here survives a restart of the host.", by_hand("use a disk")
        )
    if now in REMOTE or now.startswith("fuse"):
        remedy = by_hand("use a local disk")
        return Assessment(Severity.SERIOUS, "", "Its pauses and lost locks stop the broker.", remedy)
    if now == "overlay":
        remedy = by_hand("mount a volume at the log dir")
        return Assessment(
            Severity.SERIOUS, "", "This is a container's own layer: it is deleted with the container.", remedy
        )
    copied = now in COPYING
    because = (
        "Its writes are copied, and syncs cost more." if copied else "Other file systems are not tested."
    )
    return Assessment(Severity.ADVICE, "xfs or ext4", because, by_hand("move the log dir to xfs or ext4"))


def _option(
    wrong: Sequence[str], right: str, severity: Severity, because: str
) -> Callable[[Situation, Mount, str], Assessment]:
    """An assessment of mount options: any of `wrong` should be `right`."""

    def assess(_: Situation, mount: Mount, __: str) -> Assessment:
        found = next((option for option in wrong if option in mount.options), None)
        if found is None:
            return FINE
        return Assessment(severity, right, because, Remedy(Means.MOUNT, mount.point, right, found))

    return assess


def _shown(*options: str) -> Callable[[Situation, Mount], str]:
    """A reader of the given mount options: those that the mount has, comma separated."""

    def read(_: Situation, mount: Mount) -> str:
        return ",".join(option for option in options if option in mount.options) or "not set"

    return read


def _free(situation: Situation, mount: Mount, _: str) -> Assessment:
    share = mount.free_share
    active = situation.replicas * situation.config.get_int("log.segment.bytes")
    if share < SCARCE:
        remedy = by_hand("make room, add a disk to log.dirs, or lower log.retention.bytes")
        return Assessment(
            Severity.SERIOUS, "", "On a full disk produce is refused with KAFKA_STORAGE_ERROR.", remedy
        )
    if active > mount.total_bytes and situation.knows("partitions"):
        because = (
            f"{situation.replicas} logs may each have an active segment of "
            f"{show_bytes(situation.config.get_int('log.segment.bytes'))}, which retention does not delete: "
            f"{show_bytes(active)} of {show_bytes(mount.total_bytes)}."
        )
        return Assessment(
            Severity.ADVICE, "", because, by_hand("lower log.segment.bytes: kbroker tune propose")
        )
    return (
        Assessment(Severity.ADVICE, "", "The disk fills up.", by_hand("plan for more space"))
        if share < LITTLE
        else FINE
    )


def _read_free(_: Situation, mount: Mount) -> str | None:
    if not mount.total_bytes:
        return None
    return f"{show_bytes(mount.free_bytes)} of {show_bytes(mount.total_bytes)} ({mount.free_share:.0%})"


def _inodes(situation: Situation, mount: Mount, _: str) -> Assessment:
    needed = situation.replicas * FEWEST_INODES * 2
    if mount.free_inodes >= needed:
        return FINE
    remedy = by_hand("make the file system with more inodes (mkfs.ext4 -i), or use xfs")
    return Assessment(Severity.SERIOUS, "", f"{situation.replicas} logs need {needed}.", remedy)


def _read_inodes(_: Situation, mount: Mount) -> str | None:
    return str(mount.free_inodes) if mount.total_inodes else None


def _place(_: Situation, mount: Mount, __: str) -> Assessment:
    swept = [name for name in mount.dirs if name.startswith(tuple(each + "/" for each in SWEPT))]
    if not swept:
        return FINE
    because = f"{', '.join(swept)} is below a folder from which systemd-tmpfiles deletes old files."
    return Assessment(Severity.SERIOUS, "a folder of its own", because, by_hand("set log.dirs"))


def _writable(_: Situation, __: Mount, now: str) -> Assessment:
    if now == "yes":
        return FINE
    return Assessment(
        Severity.SERIOUS,
        "yes",
        "These are not writable.",
        by_hand(f"chown kbroker: {now}, or check as its user"),
    )


FILE_SYSTEM: tuple[Knob[Mount], ...] = (
    Knob(
        "file system",
        mounts,
        lambda _, mount: None if mount.kind == UNKNOWN else mount.kind,
        _kind,
        "kbroker is tested on ext4 and xfs, which are good at many small appends, syncs and renames.",
        "Apache Kafka documentation, Hardware and OS, Filesystem selection",
    ),
    Knob(
        "barriers",
        mounts,
        _shown(*UNSAFE),
        _option(
            UNSAFE,
            "barrier=1",
            Severity.SERIOUS,
            "Without them a completed fdatasync may be lost in a power failure.",
        ),
        "With barriers a sync reaches the medium.",
        EXT4,
    ),
    Knob(
        "synchronous mount",
        mounts,
        _shown("sync", "dirsync"),
        _option(("sync",), "async", Severity.SERIOUS, "Every append waits for the disk here."),
        "For durable acks use write.caching=false: one sync serves all waiting acks.",
        "`kbroker docs lab/durable-acks`",
    ),
    Knob(
        "journalled data",
        mounts,
        _shown("data=journal"),
        _option(
            ("data=journal",), "data=ordered", Severity.ADVICE, "The change takes effect at the next mount."
        ),
        "With data=journal every record is written twice.",
        EXT4,
    ),
    Knob(
        "access times",
        mounts,
        _shown("noatime", "relatime", "strictatime"),
        _option(("strictatime",), "noatime", Severity.ADVICE, "It is on here."),
        "With strict access times each read of a file dirties its inode; with relatime at most one a day.",
        "util-linux, mount(8)",
    ),
    Knob(
        "discard",
        mounts,
        _shown("discard"),
        _option(
            ("discard",),
            "nodiscard",
            Severity.NOTE,
            "With fstrim.timer instead, deleting segments causes no discards.",
        ),
        "Discards of deleted segments compete with appends and syncs.",
        FSTRIM,
    ),
    Knob(
        "read-only",
        mounts,
        _shown("ro"),
        _option(("ro",), "rw", Severity.SERIOUS, "The first append fails and takes the log dir offline."),
        "With some mount options a file system becomes read-only after an error.",
        "`kbroker docs durability`, log dirs that fail",
    ),
    Knob(
        "free space",
        mounts,
        _read_free,
        _free,
        "Whole segments are deleted, and file systems slow down when nearly full.",
        "`kbroker docs durability`",
    ),
    Knob(
        "free inodes",
        mounts,
        _read_inodes,
        _inodes,
        "A log has at least five files.",
        "`kbroker docs paths`, files",
    ),
    Knob(
        "place of log.dirs",
        mounts,
        lambda _, mount: ",".join(mount.dirs),
        _place,
        "Kafka's default is /tmp/kafka-logs.",
        "systemd-tmpfiles(8), tmp.conf",
    ),
    Knob(
        "written to by this user",
        mounts,
        lambda situation, mount: ", ".join(set(mount.dirs) & set(situation.host.unwritable)) or "yes",
        _writable,
        "The broker starts only if it may write to its log dirs.",
        "`kbroker docs durability`, log dirs that fail",
    ),
)

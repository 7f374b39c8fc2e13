"""Reading `leader-epoch-checkpoint`: version, number of entries, then "epoch start_offset" lines, ascending."""

from kbroker.log import files

NO_EPOCH = -1


def read_epochs(folder: str) -> list[tuple[int, int]]:
    """(epoch, start offset) entries; empty without a readable checkpoint."""
    try:
        with open(f"{folder}/{files.LEADER_EPOCH_CHECKPOINT}", encoding="utf-8") as file:
            lines = file.read().splitlines()[2:]
        return [(int(epoch), int(start)) for epoch, start in (line.split() for line in lines if line.strip())]
    except (OSError, ValueError):
        return []

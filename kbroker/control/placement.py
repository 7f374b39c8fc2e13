"""Where a new partition goes: log directory by fewest partitions, IO worker by directory, then by load. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from kbroker.protocol.errors import ErrorCode, KafkaError


def place(count: int, log_dirs: Sequence[str], occupied: Iterable[str]) -> list[str]:
    """Log directories for `count` new partitions: each goes where the fewest are (LogManager.nextLogDirs).

    log_dirs: those that may take partitions, in order of preference; occupied: the directory of every partition there
    is. Raises KAFKA_STORAGE_ERROR without any directory.
    """
    if not log_dirs:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "No log directory can take a new partition")
    held = Counter(occupied)
    chosen = []
    for _ in range(count):
        emptiest = min(log_dirs, key=lambda log_dir: held[log_dir])
        held[emptiest] += 1
        chosen.append(emptiest)
    return chosen


def workers_of_dirs(log_dirs: Sequence[str], workers: int) -> dict[str, tuple[int, ...]]:
    """IO workers that may write to each log directory.

    With more workers than directories each directory has workers of its own; else directories share them in turn.
    """
    assert log_dirs
    if workers <= len(log_dirs):
        return {log_dir: (number % workers,) for number, log_dir in enumerate(log_dirs)}
    shares: dict[str, list[int]] = {log_dir: [] for log_dir in log_dirs}
    for worker in range(workers):
        shares[log_dirs[worker % len(log_dirs)]].append(worker)
    return {log_dir: tuple(share) for log_dir, share in shares.items()}


def least_loaded(candidates: Sequence[int], load: Mapping[int, int]) -> int:
    """The candidate with the fewest partitions; the first of equals."""
    return min(candidates, key=lambda worker: load.get(worker, 0))

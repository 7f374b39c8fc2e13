"""Placement of a new partition: log directory by fewest partitions, IO worker by directory, then by
load. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from kbroker.protocol.errors import ErrorCode, KafkaError

Occupied = Iterable[str] | Mapping[str, int]
"""The directory of every log, or their number by directory."""


def place(count: int, log_dirs: Sequence[str], occupied: Occupied) -> list[str]:
    """Log directories for `count` new partitions: each goes where the fewest are
    (LogManager.nextLogDirs).

    log_dirs: those that may take partitions, in order of preference; occupied: the directory of
    every partition there is. Raises KAFKA_STORAGE_ERROR without any directory.
    """
    if not log_dirs:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "No log directory can take a new partition")
    held = Counter(occupied)
    return [_placed(log_dirs, held) for _ in range(count)]


def _placed(log_dirs: Sequence[str], held: Counter[str]) -> str:
    """The directory with the fewest partitions, the first of equals, with one more."""
    emptiest = log_dirs[0] if len(log_dirs) == 1 else min(log_dirs, key=held.__getitem__)
    held[emptiest] += 1
    return emptiest


def place_replicas(
    count: int, factor: int, sites: Sequence[Sequence[str]], occupied: Occupied
) -> Iterator[list[str]]:
    """Log directories of `factor` replicas for each of `count` new partitions, on as many sites;
    each is chosen when it is taken from the iterator.

    sites: for each one the directories that may take replicas, none for a site that has no room.
    Preferred leaders go round the sites in turn, each on the site that leads least
    (StripedReplicaPlacer). Raises INVALID_REPLICATION_FACTOR with Kafka's text when there are fewer
    sites.
    """
    open_sites = [site for site in sites if site]
    if factor > len(open_sites):
        raise too_few_sites(factor, len(open_sites))
    held = Counter(occupied)
    start = min(range(len(open_sites)), key=lambda n: sum(held[path] for path in open_sites[n]))
    sites_from = [
        [open_sites[(first + step) % len(open_sites)] for step in range(factor)]
        for first in range(len(open_sites))
    ]
    return (
        [_placed(site, held) for site in sites_from[(start + number) % len(open_sites)]]
        for number in range(count)
    )


def place_assigned(
    assignments: Sequence[Sequence[int]], sites: Mapping[int, Sequence[str]], occupied: Occupied
) -> list[list[str]]:
    """Log directories for replicas on the nodes that a client named (checked by the plan); sites:
    by node id.

    Raises KAFKA_STORAGE_ERROR for a node whose directories take nothing."""
    held = Counter(occupied)
    chosen = []
    for nodes in assignments:
        if full := [node for node in nodes if not sites[node]]:
            why = f"No log directory of node {full[0]} can take a new replica"
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, why)
        chosen.append([_placed(sites[node], held) for node in nodes])
    return chosen


def too_few_sites(factor: int, sites: int) -> KafkaError:
    """The error text of Kafka's controller for a replication factor that cannot be reached."""
    return KafkaError(
        ErrorCode.INVALID_REPLICATION_FACTOR,
        f"Unable to replicate the partition {factor} time(s): The target replication factor of {factor} cannot "
        f"be reached because only {sites} broker(s) are registered or some brokers have all their log "
        "directories cordoned.",
    )


def workers_of_sites(sites: Sequence[Sequence[str]], workers: int) -> dict[str, tuple[int, ...]]:
    """IO workers that may write to each log directory: no worker writes for two sites."""
    assert workers >= len(sites)
    shares: list[list[int]] = [[] for _ in sites]
    for worker in range(workers):
        shares[worker % len(sites)].append(worker)
    found: dict[str, tuple[int, ...]] = {}
    for site, share in zip(sites, shares, strict=True):
        for log_dir, numbers in workers_of_dirs(site, len(share)).items():
            found[log_dir] = tuple(share[number] for number in numbers)
    return found


def workers_of_dirs(log_dirs: Sequence[str], workers: int) -> dict[str, tuple[int, ...]]:
    """IO workers that may write to each log directory.

    With more workers than directories each directory has workers of its own; else directories share
    them in turn.
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
    if len(candidates) == 1:
        return candidates[0]
    return min(candidates, key=lambda worker: load.get(worker, 0))

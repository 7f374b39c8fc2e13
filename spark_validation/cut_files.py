"""Files of the histories that are gone: each client numbers those of a history from 0 on, and
counts them when it ends.

A history whose files have other names was written by another program: it is not judged.
"""

import re
from pathlib import Path

from loadtest.history import KINDS
from loadtest.run import ConsumerClient, ProducerClient

NAME = re.compile(r"(\w\d+)-(\d+)\.parquet")
OF_PRODUCERS = ("sends", "transactions", "copies")


def cut_files(
    folder: Path, of_producers: list[ProducerClient], of_consumers: list[ConsumerClient]
) -> dict[str, list[int]]:
    """History -> the clients of which a file of it is missing. folder: of all histories."""
    producers = {f"p{p.producer:06d}": (p.producer, p.files) for p in of_producers}
    consumers = {f"c{c.consumer:06d}": (c.consumer, c.files) for c in of_consumers}
    found = {}
    for kind in KINDS:
        there = numbers_of(folder / kind)
        if there is None:
            continue
        clients = producers if kind in OF_PRODUCERS else consumers
        found[kind] = [
            number
            for name, (number, files) in clients.items()
            if not_all(there.get(name, set()), None if files is None else files.get(kind, 0))
        ]
    return {kind: numbers for kind, numbers in found.items() if numbers}


def numbers_of(folder: Path) -> dict[str, set[int]] | None:
    """Client's name -> numbers of its files; None where a file has another name."""
    found: dict[str, set[int]] = {}
    for path in folder.glob("*.parquet"):
        name = NAME.fullmatch(path.name)
        if name is None:
            return None
        found.setdefault(name[1], set()).add(int(name[2]))
    return found


def not_all(there: set[int], count: int | None) -> bool:
    """Whether a number is missing. count: how many there were; None: its client did not say."""
    expected = max(there, default=-1) + 1 if count is None else count
    return not set(range(expected)) <= there

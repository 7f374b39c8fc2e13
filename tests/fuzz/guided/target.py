"""One thing that is fuzzed: code that takes bytes of others, and the outcomes that it may have."""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

Run = Callable[[bytes], None]
"""Gives an input to the code. It raises what the code raises beyond the declared exceptions, and
AssertionError for an outcome that may not be."""
Mix = Callable[[bytes], bytes]
"""Changes bytes at random."""


def mixed(data: bytes, rng: random.Random, mix: Mix) -> bytes:
    """The input as a whole is changed."""
    return mix(data)


@dataclass(frozen=True)
class Target:
    """modules: beginnings of the names of modules whose coverage counts. prepare: takes a folder
    for files. seeds: the first inputs. change: a new input from one of the corpus. silent: an error
    in the log fails."""

    name: str
    covers: str
    modules: tuple[str, ...]
    prepare: Callable[[Path], Run]
    seeds: Callable[[random.Random], Iterable[bytes]]
    change: Callable[[bytes, random.Random, Mix], bytes] = mixed
    max_bytes: int = 4096
    cpu_s: float = 5.0
    silent: bool = True

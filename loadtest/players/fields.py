"""Partition, offset and timestamp of thousands of messages at once.

A Message's methods create three Python objects for each field; a timestamp takes 60 ns. The objects
contain the numbers as C values, so these are read directly. Their positions are found by a search
for known numbers in special messages. If a number is not found exactly once, the methods are used.
"""

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from confluent_kafka import Message

Numbers = npt.NDArray[np.int64]
SAMPLES = ((0x1A2B3C4D, 0x1122334455667788, 0x2233445566778899), (3, 1 << 40 | 5, 1 << 41 | 7))


class Fields(NamedTuple):
    """A value a message, in their order."""

    partitions: npt.NDArray[np.int32]
    offsets: Numbers
    timestamps_ms: Numbers


def fields(messages: Sequence[Message]) -> Fields:
    """Fields of delivered messages (none of them an error); at least one."""
    places = layout()
    return request_message(messages) if places is None else read(messages, places)


def request_message(messages: Sequence[Message]) -> Fields:
    """Fields of messages, by calls of their methods."""
    count = len(messages)
    return Fields(
        np.fromiter(map(Message.partition, messages), np.int32, count),
        np.fromiter(map(Message.offset, messages), np.int64, count),
        np.fromiter((milliseconds for _, milliseconds in map(Message.timestamp, messages)), np.int64, count),
    )


def read(messages: Sequence[Message], places: tuple[int, int, int]) -> Fields:
    """Fields of messages, read from the objects' memory. places: see `layout`."""
    addresses = np.fromiter(map(id, messages), np.int64, len(messages))
    first = int(addresses.min())
    memory = np.asarray(_Memory(first, int(addresses.max()) - first + Message.__basicsize__))
    partition, offset, timestamp = ((addresses - first + place) // 4 for place in places)
    return Fields(memory[partition], _long(memory, offset), _long(memory, timestamp))


class _Memory:
    """Words of 32 bits from an address on, as an array interface for numpy."""

    def __init__(self, address: int, size: int) -> None:
        self.__array_interface__ = {
            "data": (address, True),
            "shape": (size // 4,),
            "typestr": np.dtype(np.int32).str,
            "version": 3,
        }


def _long(memory: npt.NDArray[np.int32], at: Numbers) -> Numbers:
    return (memory[at + 1].astype(np.int64) << 32) | memory[at].view(np.uint32)


@cache
def layout() -> tuple[int, int, int] | None:
    """Positions of partition, offset and timestamp in a Message, in bytes from its address; None:
    not found."""
    made: Any = Message  # the type stubs do not know the constructor
    samples = [
        (
            made("t", partition, offset, None, None, None, None, (1, milliseconds)),
            partition,
            offset,
            milliseconds,
        )
        for partition, offset, milliseconds in SAMPLES
    ]
    found = []
    for field, kind in ((1, ctypes.c_int32), (2, ctypes.c_int64), (3, ctypes.c_int64)):
        size = ctypes.sizeof(kind)
        places = {
            place
            for place in range(0, Message.__basicsize__ - size + 1, 4)
            if all(kind.from_address(id(sample[0]) + place).value == sample[field] for sample in samples)
        }
        if len(places) != 1:
            return None
        found.append(places.pop())
    return found[0], found[1], found[2]

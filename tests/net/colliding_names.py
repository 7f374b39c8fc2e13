"""Texts with the same CRC-32C, which is linear: any client can make them."""

from collections.abc import Iterator

from kbroker.protocol.crc32c import crc32c

LENGTH = 64


def colliding_names(count: int) -> list[str]:
    """So many different names of 64 letters with one checksum."""
    basis = list(_without_effect())
    names = []
    for number in range(count):
        flips = 0
        for bit, each in enumerate(basis):
            flips ^= each if number >> bit & 1 else 0
        names.append("".join("b" if flips >> at & 1 else "a" for at in range(LENGTH)))
    assert len({crc32c(name.encode()) for name in names}) == 1
    return names


def _without_effect() -> Iterator[int]:
    """Sets of letters, as bits, whose change leaves the checksum as it is."""
    plain = bytearray(b"a" * LENGTH)
    first, reduced = crc32c(plain), dict[int, tuple[int, int]]()
    for at in range(LENGTH):
        plain[at] = ord("b")
        effect, letters = crc32c(plain) ^ first, 1 << at
        plain[at] = ord("a")
        while effect and effect.bit_length() in reduced:
            other_effect, other_letters = reduced[effect.bit_length()]
            effect, letters = effect ^ other_effect, letters ^ other_letters
        if effect:
            reduced[effect.bit_length()] = effect, letters
        else:
            yield letters

"""An instruction that holds an address becomes one that is right wherever the code lies."""

import pytest

from kbroker.kernels.linking.relocations import CannotLink, far_jump, moved, relative

ADDRESS = b"\x88" * 8


@pytest.mark.parametrize(
    ("instruction", "load", "expected"),
    [
        ("48 b8", False, "48 8d 05 f9 0f 00 00 0f 1f 00"),  # lea 0xff9(%rip),%rax; nopl (%rax)
        ("48 bf", False, "48 8d 3d f9 0f 00 00 0f 1f 00"),  # lea 0xff9(%rip),%rdi
        ("49 b8", False, "4c 8d 05 f9 0f 00 00 0f 1f 00"),  # lea 0xff9(%rip),%r8
        ("49 bf", True, "4c 8b 3d f9 0f 00 00 0f 1f 00"),  # mov 0xff9(%rip),%r15
        ("48 bc", True, "48 8b 25 f9 0f 00 00 0f 1f 00"),  # mov 0xff9(%rip),%rsp
    ],
)
def test_the_same_register_gets_the_address(instruction: str, load: bool, expected: str) -> None:
    found = moved(bytes.fromhex(instruction) + ADDRESS, 0x5000, 0x6000, load)
    assert found.hex(" ") == expected


@pytest.mark.parametrize("instruction", ["48 a1", "4c b8", "48 b0", "48 c7", "90 b8"])
def test_another_instruction_is_not_touched(instruction: str) -> None:
    with pytest.raises(CannotLink, match=f"in the instruction {instruction}"):
        moved(bytes.fromhex(instruction) + ADDRESS, 0x5000, 0x6000, load=False)
    with pytest.raises(CannotLink):
        moved((bytes.fromhex("48 b8") + ADDRESS)[:-1], 0x5000, 0x6000, load=False)


def test_a_far_jump_goes_through_the_pointer() -> None:
    assert far_jump(0x5000, 0x6000).hex(" ") == "ff 25 fa 0f 00 00 cc cc"  # jmp *0xffa(%rip)


def test_a_distance_has_32_bits() -> None:
    assert relative(-1) == b"\xff" * 4
    assert relative((1 << 31) - 1) == b"\xff\xff\xff\x7f"
    for far in (1 << 31, -(1 << 31) - 1):
        with pytest.raises(CannotLink, match="a distance of"):
            relative(far)

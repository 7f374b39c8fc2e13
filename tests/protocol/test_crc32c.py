"""The checksum of record batches, and what its import costs."""

import subprocess
import sys
from pathlib import Path

import crc32c as package
from hypothesis import given
from hypothesis import strategies as st

from kbroker.protocol import crc32c as module
from kbroker.protocol.crc32c import crc32c


def test_the_checksum_of_the_digits_is_that_of_rfc_3720() -> None:
    assert crc32c(b"123456789") == 0xE3069283


@given(st.binary(), st.binary())
def test_a_checksum_continues_from_that_of_what_precedes(first: bytes, second: bytes) -> None:
    whole = package.crc32c(first + second)
    assert crc32c(bytearray(second), crc32c(memoryview(first))) == whole


def test_the_extension_is_loaded_without_its_package() -> None:
    program = "import sys, kbroker.protocol.records; print(sorted({'argparse', 'crc32c', 'email'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_folder_without_the_extension_has_no_checksum(tmp_path: Path) -> None:
    assert module._extension([str(tmp_path)]) is None

"""What the system says of the processor is what LLVM says."""

import platform
from pathlib import Path

import pytest
from llvmlite import binding as llvm

from kbroker.kernels import packaged
from kbroker.kernels.linking import processor

X86 = """processor	: 0
vendor_id	: GenuineIntel
cpu MHz		: {mhz}
flags		: fpu cx16 pni sse4_1 bmi1 abm{more}

processor	: 1
vendor_id	: GenuineIntel
flags		: fpu cx16 pni bmi1 abm
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the levels are those of x86-64")
def test_features_of_the_levels_are_those_that_llvm_finds() -> None:
    by_llvm = {name for name, has in llvm.get_host_cpu_features().items() if has}
    assert processor.features() & packaged.V3 == by_llvm & packaged.V3


def test_the_identity_changes_with_the_features_and_with_nothing_that_changes_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "cpuinfo"
    monkeypatch.setattr(processor, "FILE", file)
    found = []
    for mhz, more in ((2000, ""), (3100, ""), (2000, " avx2")):
        file.write_text(X86.format(mhz=mhz, more=more))
        found.append(processor.identity())
    assert found[0] == found[1]
    assert found[0] != found[2]
    assert processor.features() == {"fpu", "cx16", "sse3", "bmi", "lzcnt"}  # of all cores


@pytest.mark.parametrize("content", [None, "", "processor : 0\nmodel : unknown\n"])
def test_llvm_is_asked_if_the_system_reports_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None
) -> None:
    file = tmp_path / "cpuinfo"
    monkeypatch.setattr(processor, "FILE", file)
    if content is not None:
        file.write_text(content)
    assert llvm.get_host_cpu_name() in processor.identity()
    assert processor.features() == {name for name, has in llvm.get_host_cpu_features().items() if has}

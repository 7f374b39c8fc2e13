"""The processor, as the system describes it: asking LLVM would import it in each broker."""

from pathlib import Path

FILE = Path("/proc/cpuinfo")
_READ_BYTES = 1 << 16
"""Enough for each kind of core; a line for each of hundreds of cores takes the system
milliseconds."""
_IDENTITY = frozenset(
    {
        *("vendor_id", "cpu family", "model", "model name", "stepping", "flags"),
        *("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision", "Features"),
    }
)
_LLVM_NAMES = {
    "abm": "lzcnt",
    "bmi1": "bmi",
    "pni": "sse3",
    "sse4_1": "sse4.1",
    "sse4_2": "sse4.2",
}
"""Features that the system calls something else."""


def identity() -> list[str]:
    """All that says which code this processor runs, for each kind of core that it has."""
    found = sorted({f"{name}: {value}" for name, value in _lines() if name in _IDENTITY})
    if any(one.startswith(("flags:", "Features:")) for one in found):
        return found
    from llvmlite import binding as llvm

    return [llvm.get_host_cpu_name(), repr(sorted(llvm.get_host_cpu_features().items()))]


def features() -> frozenset[str]:
    """LLVM's names of the features that all cores have; of those that LLVM knows, at least the
    ones of the levels of x86-64."""
    flags = [set(value.split()) for name, value in _lines() if name in ("flags", "Features")]
    if flags:
        return frozenset(_LLVM_NAMES.get(one, one) for one in set.intersection(*flags))
    from llvmlite import binding as llvm

    return frozenset(name for name, has in llvm.get_host_cpu_features().items() if has)


def _lines() -> list[tuple[str, str]]:
    try:
        with FILE.open(encoding="utf-8", errors="replace") as file:
            text = file.read(_READ_BYTES)
    except OSError:
        return []
    whole = text.rpartition("\n")[0] if len(text) == _READ_BYTES else text
    pairs = (line.partition(":") for line in whole.splitlines())
    return [(name.strip(), value.strip()) for name, _, value in pairs]

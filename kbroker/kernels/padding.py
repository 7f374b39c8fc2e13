"""Padding to whole words."""

from kbroker.kernels.jit import inlined


@inlined
def padded(size: int) -> int:
    """The next multiple of 8."""
    return (size + 7) & ~7

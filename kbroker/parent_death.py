"""The signal that a process gets when its parent dies, so that kill -9 of the parent leaves no
orphan."""

import ctypes

PR_SET_PDEATHSIG = 1


def signal_on_parent_death(number: int) -> None:
    """Ask the kernel for this signal. Called in the child; a parent that has died already is not
    noticed."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)

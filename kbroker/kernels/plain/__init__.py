"""Kernels as plain Python over checked memory, for a debugger: KBROKER_NO_KERNELS=1.

Nothing is compiled: a kernel is the function that its source says. Every access to memory is
checked against what was allocated, every write to a row against the row's declared writer. May be
called by `kbroker.kernels` alone.
"""

import os

NO_KERNELS = "KBROKER_NO_KERNELS"
ACTIVE = os.environ.get(NO_KERNELS) == "1"

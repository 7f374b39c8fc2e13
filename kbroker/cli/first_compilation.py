"""The compilation of the kernels by a first start of ``kbroker serve``, in processes that end with
it."""

import logging
import signal
import subprocess
import sys
import time
from pathlib import Path

from kbroker.kernels import image

log = logging.getLogger(__name__)

COMPILE = (
    "import signal; from kbroker.parent_death import signal_on_parent_death; "
    "signal_on_parent_death(signal.SIGTERM); from kbroker.kernels.warm import main; sys.exit(main())"
)
STOPPED = (-signal.SIGTERM, 128 + signal.SIGTERM)
STOP_WITHIN_S = 1.0
"""A stop of all processes may reach the compiler first; then its signal comes here within this
time."""


def compile_kernels() -> bool:
    """Compile them and use them; whether this process can start."""
    log.info("the kernels are not compiled yet: this start compiles them, later ones use them")
    package = str(Path(__file__).parents[2])  # this kbroker's kernels, wherever a module of that name may lie
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {package!r}); {COMPILE}"]
    code = subprocess.run(command, check=False, preexec_fn=_ignore_interrupts).returncode
    if code in STOPPED:
        time.sleep(STOP_WITHIN_S)  # the signal's handler ends this process
    if code:
        log.error("cannot start: %s", failure(code))
        return False
    if not image.use():
        log.warning("cannot use %s: this start and later ones load the kernels with numba", image.path())
    return True


def failure(code: int) -> str:
    """The reason, from the exit code of the compiler, and the next step."""
    kept = "start again: what is compiled is kept"
    if code in STOPPED:
        return f"SIGTERM ended the compiler of the kernels; {kept}"
    if code == -signal.SIGKILL:
        return f"SIGKILL ended the compiler of the kernels, as the system does when memory is short; {kept}"
    if code < 0:
        return f"{signal.Signals(-code).name} ended the compiler of the kernels; {kept}"
    return f"the kernels could not be compiled (exit code {code}); the lines above say why; {kept}"


def _ignore_interrupts() -> None:
    """In the compiler: a terminal sends Ctrl-C to it, too, and it ends with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

"""The compilation of the kernels by a first start of ``kbroker serve``, in processes that end with
it."""

import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from kbroker.kernels import image
from kbroker.kernels.linking.areas import PAGE
from kbroker.kernels.linking.mapping import READ, RUN, WRITE, Mapping
from kbroker.parent_death import signal_on_parent_death

log = logging.getLogger(__name__)

COMPILE = "from kbroker.kernels.warm import main; sys.exit(main())"
NOT_EXECUTABLE = (
    "the kernels are not compiled, and this process must not make memory executable, as compiling does; "
    "print the unit again with `kbroker systemd`, or set MemoryDenyWriteExecute=no"
)
STOPPED = (-signal.SIGTERM, 128 + signal.SIGTERM)
STOP_WITHIN_S = 1.0
"""A stop of all processes may reach the compiler first; then its signal comes here within this
time."""


def compile_kernels() -> bool:
    """Compile them and use them; whether this process can start."""
    if not may_make_executable():
        log.error("cannot start: %s", NOT_EXECUTABLE)
        return False
    log.info("the kernels are not compiled yet: this start compiles them, later ones use them")
    package = str(Path(__file__).parents[2])  # this kbroker's kernels, wherever a module of that name may lie
    python = (sys.executable, "-P")  # no module of the working directory, which may be another user's
    command = [*python, "-c", f"import sys; sys.path.insert(0, {package!r}); {COMPILE}"]
    parent = os.getpid()
    code = subprocess.run(command, check=False, preexec_fn=lambda: _follow(parent)).returncode
    if code in STOPPED:
        time.sleep(STOP_WITHIN_S)  # the signal's handler ends this process
    if code:
        log.error("cannot start: %s", failure(code))
        return False
    if not image.use():
        log.warning("cannot use %s: this start and later ones load the kernels with numba", image.path())
    return True


def may_make_executable() -> bool:
    """Whether written memory may be run in this process."""
    memory = Mapping(PAGE, READ | WRITE)
    try:
        memory.protect(0, PAGE, READ | RUN)
        return True
    except OSError:
        return False
    finally:
        memory.close()


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


def _follow(parent: int) -> None:
    """Run in the compiler's process before its program: let it end with its parent, and ignore
    Ctrl-C, which a terminal sends to both."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal_on_parent_death(signal.SIGTERM)
    if os.getppid() != parent:  # it has ended meanwhile
        os._exit(STOPPED[1])

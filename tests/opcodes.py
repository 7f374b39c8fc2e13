"""How many opcodes of Python a piece of work takes: a cost that a slow or busy machine does not
change."""

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def opcodes(work: Callable[[], object]) -> int:
    """Of this thread; what a function in C does counts as the one opcode that calls it. What
    earlier work left to the garbage collector is not counted."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before, collects = sys.gettrace(), gc.isenabled()
    gc.disable()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
        if collects:
            gc.enable()
    return count

"""Runs a command on a terminal of its own and answers what it asks: `python typist.py COMMAND
ANSWER...`, where COMMAND is a line for the shell.

An answer is typed when the command has printed a prompt, which ends with a colon and a space: the
library that asks for a password throws away what was typed before. Ends with the command's own exit
code; with 124 when it had to be killed, because it did not end.
"""

import os
import pty
import select
import sys
import time

END_S = 120
KILLED = 124
PROMPT = b": "


def main(command: str, answers: list[str], end_s: float = END_S) -> int:
    child, terminal = pty.fork()
    if child == 0:
        os.execv("/bin/sh", ["sh", "-c", command])
    pending, shown = list(answers), b""
    deadline = time.monotonic() + end_s
    while readable(terminal, deadline):
        try:
            read = os.read(terminal, 4096)
        except OSError:  # as Linux reports that the command has closed its terminal
            break
        os.write(sys.stdout.fileno(), read)
        shown += read
        if pending and shown.endswith(PROMPT):
            os.write(terminal, f"{pending.pop(0)}\n".encode())
            shown = b""
    else:
        os.kill(child, 9)
    _, status = os.waitpid(child, 0)
    os.close(terminal)
    return KILLED if os.WIFSIGNALED(status) else os.waitstatus_to_exitcode(status)


def readable(fd: int, deadline: float) -> bool:
    """Whether there is something to read, or the end, before this time of the monotonic clock. Not
    by select(2): a process of many tests has descriptors above its limit."""
    waiting = select.poll()
    waiting.register(fd, select.POLLIN)
    return bool(waiting.poll(max(deadline - time.monotonic(), 0) * 1000))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))

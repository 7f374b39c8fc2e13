"""Runs a command until it has begun, then sends Ctrl-C: `python until_begun.py SECONDS COMMAND...`.

Ctrl-C comes when the command has printed something, or after SECONDS if it prints nothing. Before
a command has begun it would end with 130. Ends with the command's own exit code; with 124 when it
had to be killed, because Ctrl-C did not end it.
"""

import signal
import subprocess
import sys
import threading

END_S = 60
KILLED = 124


def main(seconds: float, command: list[str], end_s: float = END_S) -> int:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell has it ignored
    begun = threading.Event()
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None

        def read() -> None:
            for _ in iter(lambda: process.stdout.read1(), b""):  # type: ignore[union-attr]
                begun.set()

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        begun.wait(seconds)
        process.send_signal(signal.SIGINT)
        try:
            code = process.wait(end_s)
        except subprocess.TimeoutExpired:
            process.kill()
            print(f"{' '.join(command)}: Ctrl-C did not end it within {end_s:g} s", file=sys.stderr)
            code = KILLED
        reader.join(END_S)
    return code


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))

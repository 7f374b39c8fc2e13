"""The load generator: compiles its C sources once, runs one command, returns its output."""

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).parent / "loadgen"
CACHE = Path(__file__).parents[1] / ".cache" / "bench"
FLAGS = ("-O2", "-std=gnu11", "-Wall", "-Wextra")


class LoadFailed(Exception):
    """The load generator failed: the broker sent a wrong answer or none, or could not be
    reached."""


def compile_generator(cache: Path = CACHE) -> Path:
    """The binary of the present sources, compiled if it is missing. Raises LoadFailed without a
    compiler."""
    sources = sorted(SOURCES.glob("*.[ch]"))
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    binary = cache / f"loadgen-{digest}"
    if binary.exists():
        return binary
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise LoadFailed("the load generator is C: a C compiler (cc) is needed")
    cache.mkdir(parents=True, exist_ok=True)
    unfinished = binary.with_suffix(f".{os.getpid()}")
    units = [str(source) for source in sources if source.suffix == ".c"]
    command = [compiler, *FLAGS, "-o", str(unfinished), *units, "-lpthread", "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise LoadFailed(f"compiling the load generator failed:\n{done.stderr}")
    unfinished.rename(binary)
    return binary


def find_librdkafka() -> Path:
    """The librdkafka of the confluent-kafka wheel. Raises LoadFailed if it is missing."""
    spec = importlib.util.find_spec("confluent_kafka")
    if spec is not None and spec.origin is not None:
        packages = Path(spec.origin).parents[1]
        places = (packages / "confluent_kafka.libs", packages / "confluent_kafka" / ".dylibs")
        for place in places:
            if found := sorted(place.glob("librdkafka*")):
                return found[0]
    raise LoadFailed("the confluent-kafka package with its librdkafka is not installed")


class Generator:
    """The compiled load generator; `run` is one process per call."""

    def __init__(self, binary: Path, library: Path) -> None:
        self.binary = binary
        self.library = library

    def run(
        self,
        command: str,
        options: dict[str, object],
        on_event: Callable[[str], None] = lambda _: None,
        timeout_s: float = 300,
    ) -> dict[str, Any]:
        """Runs a command to its end; `on_event` is called with "begin" and "end" around the
        measured part.

        Raises LoadFailed with the generator's own words when a check failed.
        """
        if command.startswith("rd-"):
            options = {**options, "library": self.library}
        process = self._start(command, options, timeout_s)
        assert process.stdout is not None
        answer: dict[str, Any] | None = None
        try:
            for line in process.stdout:
                if line.startswith("{"):
                    answer = json.loads(line)
                else:
                    on_event(line.strip())
            _, line = process.communicate()
        except BaseException:
            process.terminate()
            process.wait()
            raise
        if process.returncode or answer is None:
            reason = f"took longer than {timeout_s:.0f} s" if process.returncode == 124 else line.strip()
            raise LoadFailed(f"{command}: {reason or f'ended with {process.returncode}'}")
        return answer

    @contextmanager
    def serve(self, command: str, options: Mapping[str, object], timeout_s: float = 300) -> Iterator[int]:
        """Run a listening command until the end of the block; yields its port. Raises LoadFailed if
        it ends by itself."""
        process = self._start(command, options, timeout_s)
        assert process.stdout is not None
        try:
            name, _, port = process.stdout.readline().strip().partition(" ")
            if name != "port":
                raise LoadFailed(f"{command}: {process.communicate()[1].strip()}")
            yield int(port)
            if process.poll() is not None:
                raise LoadFailed(f"{command}: {process.communicate()[1].strip()}")
        finally:
            process.terminate()
            process.communicate()

    def _start(self, command: str, options: Mapping[str, object], timeout_s: float) -> subprocess.Popen[str]:
        arguments = [
            text for key, value in options.items() for text in (f"--{key.replace('_', '-')}", str(value))
        ]
        return subprocess.Popen(
            ["timeout", "--kill-after=5", str(timeout_s), str(self.binary), command, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

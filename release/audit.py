"""`python -m release.audit`: known vulnerabilities of the locked packages, by pip-audit.

Ends with 1 if a package has one, and with 3 if that could not be asked.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
LOCKED: Final = "requirements/run.txt"
SAFE, VULNERABLE, NOT_ASKED = 0, 1, 3
TIMEOUT_S: Final = 300


def judged(output: str, errors: str) -> tuple[int, list[str]]:
    """The code of the end, and lines for the reader, from what pip-audit wrote."""
    try:
        packages = list(json.loads(output)["dependencies"])
    except (ValueError, KeyError, TypeError):
        last = next((line for line in reversed(errors.splitlines()) if line.strip()), "no output")
        return NOT_ASKED, [f"audit: not asked: {last.strip()[:300]}"]
    found = [
        f"audit: {package['name']} {package['version']}: {one['id']}, fixed in {fixed(one)}"
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


def main() -> int:
    command = [
        str(Path(sys.executable).parent / "uv"), "tool", "run", "pip-audit", "--format", "json",
        "--progress-spinner", "off", "--disable-pip", "--require-hashes", "--requirement", LOCKED,
    ]  # fmt: skip
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S)
        output, errors = done.stdout, done.stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        output, errors = "", str(error)
    code, lines = judged(output, errors)
    print("\n".join(lines))
    return code


if __name__ == "__main__":
    sys.exit(main())

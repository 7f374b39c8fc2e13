"""The bill of materials of a release, CycloneDX 1.5: kbroker and every package that
requirements/run.txt locks."""

import json
import re
import uuid
from pathlib import Path
from typing import Any

LOCKED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)")
OWN = uuid.UUID("6b5f0a3e-6a0e-5d0c-9a55-0a6d1c0b7e11")  # names our documents, nothing else


def components(locked: str) -> list[dict[str, Any]]:
    """One component a package, by name."""
    found = sorted(match.groups() for line in locked.splitlines() if (match := LOCKED.match(line)))
    return [
        {"type": "library", "name": name, "version": version, "purl": url, "bom-ref": url}
        for name, version in found
        for url in [f"pkg:pypi/{name.lower()}@{version}"]
    ]


def bill(version: str, locked: str) -> str:
    """The document. The same input gives the same text."""
    packages = components(locked)
    ours = f"pkg:pypi/kbroker@{version}"
    serial = uuid.uuid5(OWN, version + locked)
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "name": "kbroker",
                "version": version,
                "purl": ours,
                "bom-ref": ours,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": packages,
        "dependencies": [{"ref": ours, "dependsOn": [one["bom-ref"] for one in packages]}],
    }
    return json.dumps(document, indent=1) + "\n"


def write(folder: Path, version: str, locked: Path) -> Path:
    """Put it beside the packages."""
    target = folder / f"kbroker-{version}.cdx.json"
    target.write_text(bill(version, locked.read_text()))
    return target

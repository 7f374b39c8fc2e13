"""Puts the pages of docs/ into the wheel, which `kbroker docs` prints, and images of kernels when
there are any: KBROKER_IMAGES names their folder (`release/dist.py`)."""

import os
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FORM_OF_A_DECISION = "0000-template.md"
"""No page for a reader: kbroker/cli/pages.py leaves it out as well."""


class Contents(BuildHookInterface[Any]):
    """A wheel with images is for one interpreter and x86-64; one without is for all."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        docs = Path(self.root) / "docs"
        for page in sorted(docs.rglob("*.md")):
            if page.name == FORM_OF_A_DECISION:
                continue
            build_data["force_include"][str(page)] = f"kbroker/pages/{page.relative_to(docs)}"
        folder = os.environ.get("KBROKER_IMAGES")
        if folder is None:
            return
        interpreter = f"cp{sys.version_info.major}{sys.version_info.minor}"
        build_data["pure_python"] = False
        # the code calls the interpreter alone
        build_data["tag"] = f"{interpreter}-{interpreter}-manylinux_2_17_x86_64"
        for file in sorted(Path(folder).iterdir()):
            build_data["force_include"][str(file)] = f"kbroker/kernels/images/{file.name}"

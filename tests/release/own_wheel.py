"""A wheel for this machine: ``python -m tests.release.own_wheel FOLDER``, in the root of the tree.

Its kernels are those that are compiled here, so nothing is compiled for it.
"""

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from kbroker.kernels import image, packaged
from release.dist import build

LEVEL = "x86-64-v2"
"""The level whose image every processor of today takes."""


def own_wheel(folder: Path) -> Path:
    """Raises FileNotFoundError where no kernels are compiled."""
    with TemporaryDirectory() as images:
        shutil.copyfile(image.path(), Path(images) / packaged.name(LEVEL))
        build("wheel", folder, KBROKER_IMAGES=images)
    (wheel,) = folder.glob("kbroker-*.whl")
    return wheel


if __name__ == "__main__":
    own_wheel(Path(sys.argv[1]))

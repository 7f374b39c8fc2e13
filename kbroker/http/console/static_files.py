"""The files of the page, read once, each with its type, a tag and a gzip copy."""

import gzip
import hashlib
from pathlib import Path

from msgspec import Struct

FOLDER = Path(__file__).parent / "static"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
PAGE = "index.html"


class StaticFile(Struct, frozen=True):
    """tag: changes with the content."""

    data: bytes
    packed: bytes
    content_type: str
    tag: str


def load(folder: Path = FOLDER) -> dict[str, StaticFile]:
    """The files by path below /console/; only those of a known type."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix in TYPES:
            data = path.read_bytes()
            tag = hashlib.sha256(data).hexdigest()[:20]
            name = path.relative_to(folder).as_posix()
            found[name] = StaticFile(data, gzip.compress(data, 9, mtime=0), TYPES[path.suffix], f'"{tag}"')
    return found

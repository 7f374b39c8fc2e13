"""Reads the keys of an issuer by https or from a file, with bounds of time and size."""

import time
import urllib.request
from http.client import HTTPMessage
from typing import IO, Final
from urllib.parse import urljoin, urlsplit
from urllib.request import url2pathname

from kbroker.config.plain_file import open_plain
from kbroker.net.security.key_address import FILE, SCHEMES

FETCH_S: Final = 10.0
"""Timeout of each wait of the socket, and of the whole answer."""
MAX_KEY_BYTES: Final = 1 << 20
PIECE: Final = 1 << 16


class Elsewhere(OSError):
    """The issuer redirects to another host or scheme."""


class SameHost(urllib.request.HTTPRedirectHandler):
    """Follows redirects within the host, port and scheme that the administrator named, and no
    others."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        """Raises Elsewhere."""
        old, new = urlsplit(req.full_url), urlsplit(urljoin(req.full_url, newurl))
        if (old.scheme, old.netloc) != (new.scheme, new.netloc):
            raise Elsewhere(f"redirected to {new.scheme}://{new.netloc}, which is refused")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def read_keys(url: str) -> bytes:
    """The content at the address. Raises OSError, or ValueError for an answer that is too long."""
    if url.startswith(FILE):
        with open_plain(url2pathname(urlsplit(url).path)) as file:
            return _bounded(file)
    if not url.startswith(SCHEMES):
        raise ValueError(f"an address of {' or '.join(SCHEMES)} is needed")
    with urllib.request.build_opener(SameHost).open(url, timeout=FETCH_S) as answer:
        return _bounded(answer)


def _bounded(source: IO[bytes]) -> bytes:
    """The whole body, if it is small and arrives in time."""
    found, end_s = bytearray(), time.monotonic() + FETCH_S
    read = getattr(
        source, "read1", source.read
    )  # one read of the socket: a slow answer cannot hide in a long one
    while piece := read(PIECE):
        found += piece
        if len(found) > MAX_KEY_BYTES:
            raise ValueError(f"more than {MAX_KEY_BYTES} bytes")
        if time.monotonic() > end_s:
            raise TimeoutError(f"the answer takes more than {FETCH_S:g} s")
    return bytes(found)

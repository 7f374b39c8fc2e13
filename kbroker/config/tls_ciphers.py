"""Translates cipher suite names of RFCs and Java into OpenSSL's. Pure."""

import re
from collections.abc import Iterable
from typing import Final

ALWAYS_TLS13: Final = frozenset(
    ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
)
"""OpenSSL's suites of TLS 1.3; Python's ssl module cannot choose among them."""
_SUITE: Final = re.compile(r"TLS_([A-Z_]+?)_WITH_([A-Z0-9_]+)")
_AES: Final = re.compile(r"AES_(128|256)_(GCM|CCM|CBC)(_8)?(?:_(SHA(?:256|384)?))?")


def openssl_name(suite: str) -> str | None:
    """OpenSSL's name of a suite of TLS 1.2, None if it has none."""
    match = _SUITE.fullmatch(suite)
    if match is None:
        return None
    exchange = "" if match[1] == "RSA" else match[1].replace("_", "-") + "-"
    if match[2].startswith("CHACHA20_POLY1305"):
        return f"{exchange}CHACHA20-POLY1305"
    cipher = _AES.fullmatch(match[2])
    if cipher is None:
        return None
    mode = "" if cipher[2] == "CBC" else f"-{cipher[2]}{'8' if cipher[3] else ''}"
    return f"{exchange}AES{cipher[1]}{mode}" + (f"-{cipher[4]}" if cipher[4] else "")


def split(suites: Iterable[str]) -> tuple[frozenset[str], list[str], list[str]]:
    """(suites of TLS 1.3, OpenSSL's names of the others, suites that are unknown)."""
    newest, names, unknown = set(), [], []
    for suite in suites:
        if suite in ALWAYS_TLS13:
            newest.add(suite)
        elif (name := openssl_name(suite)) is not None:
            names.append(name)
        else:
            unknown.append(suite)
    return frozenset(newest), names, unknown

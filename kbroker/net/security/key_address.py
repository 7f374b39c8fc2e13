"""The addresses that an issuer's keys may have. A separate module, because the reader of keys
loads an HTTP client."""

from typing import Final

FILE: Final = "file:///"
SCHEMES: Final = ("https://", FILE)

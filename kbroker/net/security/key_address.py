"""Where an issuer's keys may be: apart from what reads them, which loads an HTTP client."""

from typing import Final

FILE: Final = "file:///"
SCHEMES: Final = ("https://", FILE)

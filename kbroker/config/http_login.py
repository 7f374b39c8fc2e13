"""The login that commands send to an HTTP port of the broker (HTTP Basic), and URLs without it."""

import os
from base64 import b64encode
from urllib.parse import unquote, urlsplit

LOGIN = "KBROKER_HTTP_LOGIN"
"""A variable, NAME:PASSWORD: a command line is visible to other users of the host."""


def without_login(url: str) -> str:
    """A URL without its name and password, for messages; also if a / in the password makes it
    invalid."""
    scheme, separator, rest = url.partition("://") if "://" in url else ("", "", url)
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"


def login_in(url: str) -> str:
    """NAME:PASSWORD of a URL with its scheme, with its percent signs; empty if it has none. Raises
    ValueError."""
    return urlsplit(url).netloc.rpartition("@")[0]


def login_of(url: str) -> str:
    """NAME:PASSWORD of a URL with its scheme, else of the variable; empty if there is neither.
    Raises ValueError."""
    return unquote(login_in(url)) or os.environ.get(LOGIN, "")


def login_header(url: str) -> dict[str, str]:
    """The header for a broker with kbroker.metrics.login, or none. Raises ValueError."""
    login = login_of(url)
    return basic(login) if login else {}


def basic(login: str) -> dict[str, str]:
    """The header of NAME:PASSWORD."""
    return {"Authorization": f"Basic {b64encode(login.encode()).decode()}"}

"""Headers for the browser's guards, and checks of a request's headers: the origin of the page that
sent it. Pure."""

from collections.abc import Mapping

from kbroker.config import client_network

SECURITY_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
TRUSTED_ONLY: Mapping[str, str] = {"Cross-Origin-Opener-Policy": "same-origin"}
"""Header of pages from loopback or over TLS. Elsewhere a browser ignores it and logs an error."""
COOKIE = "kbroker_session"
FOREIGN = "requests of pages of other sites are refused"


def security_headers(request: Mapping[str, str], tls: bool = False) -> dict[str, str]:
    """The headers of every answer. request: headers. tls: the port itself speaks TLS."""
    trusted = is_over_tls(request, tls) or is_this_host(request.get("Host"))
    return {**SECURITY_HEADERS, **(TRUSTED_ONLY if trusted else {})}


def is_over_tls(request: Mapping[str, str], tls: bool) -> bool:
    """Whether the browser speaks TLS, with this port or with a proxy before it, which says so."""
    return tls or request.get("X-Forwarded-Proto", "").lower() == "https"


def host_of(text: str) -> str | None:
    """The host of a Host header, without its port; None for an invalid header."""
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        return host if bracket and (not rest or rest.startswith(":")) else None
    host, _, port = text.partition(":")
    return host if host and (not port or port.isdigit()) else None


def is_this_host(text: str | None) -> bool:
    """Whether a Host header has a loopback name. Other names are refused, because DNS may rebind
    the name of a foreign page to this host."""
    host = host_of(text or "")
    return host is not None and client_network.is_this_host(host)


def from_own_page(headers: Mapping[str, str]) -> bool:
    """Whether the request comes from a page of the same origin, by the browser's headers."""
    origin, host = headers.get("Origin"), headers.get("Host")
    if origin is None or host is None:
        return False
    scheme, separator, where = origin.partition("://")
    if scheme not in ("http", "https") or not separator or where.lower() != host.lower():
        return False
    return headers.get("Sec-Fetch-Site", "same-origin") == "same-origin"


def is_foreign(headers: Mapping[str, str], on_loopback: bool) -> bool:
    """Whether a browser sends the request to an API for a page of another site: it could not read
    the answer, but keep this server busy. On loopback that includes a page whose name DNS has bound
    to this host. Clients that are no browsers send no Origin and may use any name of the host. A
    link on a page of another site may be followed."""
    if "Origin" in headers and not from_own_page(headers):
        return True
    is_of_another = headers.get("Sec-Fetch-Site") in ("cross-site", "same-site")
    if is_of_another and headers.get("Sec-Fetch-Dest") != "document":
        return True
    by_browser = "Origin" in headers or headers.get("User-Agent", "").startswith("Mozilla/")
    return on_loopback and by_browser and not is_this_host(headers.get("Host"))


def cookie(token: str, tls: bool) -> str:
    """A Set-Cookie header. tls: the browser sends the cookie only over TLS."""
    return f"{COOKIE}={token}; Path=/; HttpOnly; SameSite=Strict{'; Secure' if tls else ''}"


def cookie_of(header: str | None) -> str:
    """The session token of a Cookie header, empty for none."""
    for part in (header or "")[:4096].split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return value
    return ""

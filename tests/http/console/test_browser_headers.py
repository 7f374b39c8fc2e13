"""Headers that say whose page a request comes from."""

import json
from pathlib import Path

import pytest

from kbroker.http.console.browser_headers import (
    SECURITY_HEADERS,
    cookie_of,
    from_own_page,
    is_foreign,
    is_this_host,
    security_headers,
)
from kbroker.http.console.caller import Caller
from tests.http.console.served import Served


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:9404",
        "127.0.0.1:9404",
        "127.8.0.1",
        "[::1]",
        "[::1]:1",
        "[::ffff:127.0.0.1]:1",
    ],
)
def test_loopback_names_are_this_host(host: str) -> None:
    assert is_this_host(host)


@pytest.mark.parametrize(
    "host",
    [None, "", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example:9404", "10.0.0.1", "[::2]", "[::1",
     "[::1]9404", "[::1].evil.example",
     "localhost:x", "127.0.0.1:9404:1", "0.0.0.0"],
)  # fmt: skip
def test_a_rebound_name_is_not_this_host(host: str | None) -> None:
    assert not is_this_host(host)


def test_the_opener_policy_is_sent_where_a_browser_heeds_it() -> None:
    elsewhere = {"Host": "10.0.0.5:9404"}
    assert security_headers(elsewhere) == SECURITY_HEADERS
    for trusted in ({"Host": "localhost:9404"}, elsewhere | {"X-Forwarded-Proto": "https"}):
        assert set(security_headers(trusted)) - set(SECURITY_HEADERS) == {"Cross-Origin-Opener-Policy"}


def test_only_pages_of_the_same_origin_are_ours() -> None:
    ours = {"Host": "localhost:9404", "Origin": "http://localhost:9404"}
    assert from_own_page(ours)
    assert from_own_page(ours | {"Sec-Fetch-Site": "same-origin"})
    assert from_own_page(ours | {"Host": "LocalHost:9404"})
    for site in ("cross-site", "same-site", "none"):
        assert not from_own_page(ours | {"Sec-Fetch-Site": site})
    for origin in (
        "http://localhost:9405",
        "http://evil.example",
        "null",
        "localhost:9404",
        "file://localhost:9404",
    ):
        assert not from_own_page(ours | {"Origin": origin}), origin
    assert not from_own_page({"Host": "localhost:9404"})
    assert not from_own_page({"Origin": "http://localhost:9404"})


def test_a_cookie_is_found_among_others() -> None:
    assert cookie_of("a=b; kbroker_session=token; c=d") == "token"
    assert cookie_of("xkbroker_session=token") == ""
    assert cookie_of(None) == ""


def test_a_session_behind_a_proxy_with_tls_leaves_the_browser_over_tls_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, a link without TLS made the browser send it in the clear."""
    monkeypatch.setattr(Caller, "log_in", lambda _: None)
    listeners = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms": "SCRAM-SHA-256"}
    served = Served(tmp_path, "10.0.0.5", **listeners)
    body = {"user": "ann", "password": "p"}
    for proto, is_secure in (("https", True), ("HTTPS", True), ("http", False)):
        proxied = {"Origin": f"{proto.lower()}://127.0.0.1:{served.port}", "X_Forwarded_Proto": proto}
        status, headers, found = served.ask("POST", "/api/login", body, **proxied)
        assert status == 200
        assert headers["Set-Cookie"].endswith("; Secure") is is_secure
        cookie, csrf = headers["Set-Cookie"].partition(";")[0], json.loads(found)["csrf"]
        ended = served.ask("POST", "/api/logout", {}, Cookie=cookie, X_CSRF_Token=csrf, **proxied)[1]
        assert ("; Secure;" in ended["Set-Cookie"]) is is_secure
    served.close()


def test_no_script_runs_but_files_of_this_server() -> None:
    policy = SECURITY_HEADERS["Content-Security-Policy"]
    assert "script-src 'self';" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy


EVIL = {"Host": "localhost:8081", "Origin": "http://evil.example"}
REBOUND = {"Host": "evil.example:8081", "Origin": "http://evil.example:8081"}
IMAGE = {"Host": "localhost:8081", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "image"}
"""A GET for a page of another site has no Origin."""
BROWSER = {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64)"}


@pytest.mark.parametrize(
    ("headers", "on_loopback", "elsewhere"),
    [
        ({}, False, False),
        ({"Host": "registry:8081"}, False, False),  # a client that is no browser, by a name in /etc/hosts
        (EVIL, True, True),
        (EVIL | {"Origin": "null"}, True, True),
        (REBOUND, True, False),
        (BROWSER | {"Host": "evil.example:8081"}, True, False),
        (BROWSER | {"Host": "127.0.0.1:8081"}, False, False),
        ({"Host": "localhost:8081", "Origin": "http://localhost:8081"}, False, False),
        (IMAGE, True, True),
        (IMAGE | {"Sec-Fetch-Site": "same-site"}, True, True),
        (IMAGE | {"Sec-Fetch-Site": "same-origin"}, False, False),
        (IMAGE | {"Sec-Fetch-Site": "none"}, False, False),
        (IMAGE | {"Sec-Fetch-Dest": "document"}, False, False),  # a link that was followed
        (IMAGE | {"Sec-Fetch-Dest": "iframe"}, True, True),
    ],
)
def test_pages_of_other_sites_are_foreign(
    headers: dict[str, str], on_loopback: bool, elsewhere: bool
) -> None:
    assert is_foreign(headers, True) is on_loopback
    assert is_foreign(headers, False) is elsewhere


def test_nothing_is_read_for_pages_of_other_sites(tmp_path: Path) -> None:
    """They cannot see the answers, but a browser would send as many requests as they like, and keep
    streams open."""
    served = Served(tmp_path)
    for headers, status in (
        ({"Origin": "http://evil.example"}, 403),
        ({"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Dest": "image"}, 403),
        ({"Sec_Fetch_Site": "same-origin", "Sec_Fetch_Dest": "empty"}, 200),
        ({"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Dest": "document"}, 200),
        ({}, 200),
    ):
        for path in ("/api/session", "/api/overview"):
            assert served.ask("GET", path, **headers)[0] == status, headers
        assert served.ask("GET", "/", **headers)[0] == 200, "the page itself"
    assert served.ask("GET", "/api/events", Origin="http://evil.example")[0] == 403
    served.close()

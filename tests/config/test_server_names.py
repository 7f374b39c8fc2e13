"""Which certificate a client gets for the server name that it sends, in handshakes in memory."""

import ssl
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from kbroker.config.server_names import by_name, choose_by_name, chosen, names_of
from kbroker.net.security.tls_relay import reason_of
from tests.key_stores import Made, made
from tests.tls_client import Client

FIRST = made("first", "first.example", "*.first.example")
SECOND = made("second", "second.example", "a.first.example")
THIRD = made("third")  # no alternative name


def serving(folder: Path, *entries: Made) -> ssl.SSLContext:
    """A server's context with these entries."""
    contexts = []
    for number, entry in enumerate(entries):
        file = folder / f"{number}.pem"
        file.write_bytes(entry.key_pem + entry.pem)
        contexts.append(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        contexts[-1].load_cert_chain(file)
    choose_by_name(contexts, [entry.pem for entry in entries])
    return contexts[0]


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (FIRST, ["first.example", "*.first.example"]),
        (THIRD, ["third"]),
        (made("CN", "Big.Example"), ["big.example"]),
        (made("Big.Example."), ["big.example"]),
    ],
)
def test_names_are_the_alternative_ones_or_the_common_name(entry: Made, expected: list[str]) -> None:
    assert names_of(entry.pem) == expected


def test_an_unreadable_certificate_has_no_names() -> None:
    assert names_of(b"what only OpenSSL reads") == []


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("b.example", 1),
        ("B.eXample", 1),
        ("b.example.", 1),
        ("x.b.example", 2),
        ("y.b.example", 3),  # a whole name comes before a wildcard
        ("xn--bcher-kva.b.example", 2),
        ("b.x.b.example", 0),  # a wildcard is for one label
        (".b.example", 0),
        ("b", 0),
        ("c.example", 3),
        ("fool.example", 0),  # a wildcard is a whole label
        ("10.0.0.1", 0),
        ("a.example", 0),
        ("", 0),
        (".", 0),
        ("..", 0),
        ("*", 0),
        ("x" * 255, 0),
    ],
)
def test_the_entry_of_a_name(name: str, index: int) -> None:
    names: Sequence[Sequence[str]] = (
        ["a.example"],
        ["b.example"],
        ["*.b.example", "c.d.example"],
        ["c.example", "y.b.example", "b.example", "f*.example"],
    )
    assert chosen(by_name(names), name) == index


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_gets_the_certificate_of_the_name_that_it_sends(
    tmp_path: Path, version: ssl.TLSVersion
) -> None:
    server = serving(tmp_path, FIRST, SECOND, THIRD)
    expected = {
        "first.example": "first", "SECOND.example": "second", "x.first.example": "first",
        "a.first.example": "second", "third": "third", "unknown.example": "first", None: "first",
    }  # fmt: skip
    assert {name: Client(version).sees(server, name) for name in expected} == expected


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_session_is_resumed_whatever_the_name(tmp_path: Path, version: ssl.TLSVersion) -> None:
    server = serving(tmp_path, FIRST, SECOND)
    for name in ("first.example", "second.example", None):
        client = Client(version)
        before = client.sees(server, name)
        assert not client.resumed
        assert client.sees(server, name) == before
        assert client.resumed


def test_a_name_that_is_not_ascii_is_refused_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", printed.append)
    server = serving(tmp_path, FIRST, SECOND)
    hook = sys.unraisablehook
    with pytest.raises(ssl.SSLError) as refused:
        Client().sees(server, "aaaa.example", b"a\xff\xfea.example")
    assert reason_of(refused.value) == "TLS handshake failed: the server name (SNI) is not ASCII"
    assert not printed
    serving(tmp_path, FIRST, SECOND)
    assert sys.unraisablehook is hook


def test_other_errors_that_cannot_be_raised_are_still_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", printed.append)
    serving(tmp_path, FIRST, SECOND)

    class Failing:
        def __del__(self) -> None:
            raise OSError("lost")

    made_here = [Failing()]
    made_here.clear()
    assert len(printed) == 1

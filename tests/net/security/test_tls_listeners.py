"""TLS listeners take a renewed key store while they run, if its certificate has the same names."""

import ssl
from pathlib import Path

import pytest

from kbroker.config.broker import BrokerConfig
from kbroker.net.security.tls_listeners import TlsListeners
from tests import key_stores
from tests.key_stores import made
from tests.net.security.tls_stores import config_of, put
from tests.tls_client import Client


def looked(listeners: TlsListeners) -> object:
    """The context of the listener SSL after its files have been checked."""
    listeners._next_check_s = 0
    listeners._reload_changed()
    return listeners._contexts["SSL"].context


def test_a_renewed_certificate_of_the_same_subject_is_taken(tmp_path: Path) -> None:
    store = tmp_path / "k.pem"
    listeners = TlsListeners(config_of(put(store, "k")))
    before = listeners._contexts["SSL"].context
    assert looked(listeners) is before
    put(store, "k")
    assert looked(listeners) is not before


def test_a_certificate_of_another_subject_is_refused_until_the_old_subject_is_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = tmp_path / "k.pem"
    listeners = TlsListeners(config_of(put(store, "k")))
    before = listeners._contexts["SSL"].context
    put(store, "other")
    assert looked(listeners) is before
    assert (
        "TLS listener SSL keeps its key and trust stores: Keystore DistinguishedName does not match"
        in caplog.text
    )
    put(store, "k")
    assert looked(listeners) is not before


def test_another_subject_is_taken_where_it_is_allowed(tmp_path: Path) -> None:
    store = tmp_path / "k.pem"
    listeners = TlsListeners(config_of(put(store, "k"), ssl_allow_dn_changes="true"))
    before = listeners._contexts["SSL"].context
    put(store, "other")
    assert looked(listeners) is not before


def test_one_listener_renews_its_store_while_that_of_another_is_broken(tmp_path: Path) -> None:
    first, second = tmp_path / "first.pem", tmp_path / "second.pem"
    listeners = TlsListeners(
        config_of(
            put(first, "k"), listeners="SSL://:0,MORE://:0", listener_security_protocol_map="SSL:SSL,MORE:SSL",
            listener_name_more_ssl_keystore_location=put(second, "m"), advertised_listeners="SSL://h:1",
        )
    )  # fmt: skip
    before = {name: each.context for name, each in listeners._contexts.items()}
    put(first, "k")
    second.write_text("half a file")
    assert looked(listeners) is not before["SSL"]
    assert listeners._contexts["MORE"].context is before["MORE"]


def test_new_settings_are_taken_by_the_same_rule(tmp_path: Path) -> None:
    listeners = TlsListeners(config_of(put(tmp_path / "k.pem", "k")))
    key, before = "listener.name.ssl.ssl.keystore.location", listeners._contexts["SSL"].context
    listeners.change({key: put(tmp_path / "other.pem", "other")})
    assert listeners._contexts["SSL"].context is before
    listeners.change({key: put(tmp_path / "again.pem", "k")})
    assert listeners._contexts["SSL"].context is not before


def test_every_entry_of_a_store_is_renewed_and_their_number_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = tmp_path / "k.p12"
    key_stores.put(store, made("a", "a.example"), made("b", "b.example"))
    listeners = TlsListeners(BrokerConfig({"listeners": "SSL://:0", **key_stores.settings(store)}))
    before = listeners._contexts["SSL"].context
    key_stores.put(store, made("a", "a.example"))
    assert looked(listeners) is before
    key_stores.put(store, made("a", "a.example"), made("b", "other.example"))
    assert looked(listeners) is before
    assert "existing store contains 2 entries, new store contains 1 entries" in caplog.text
    assert "existing={alias=b, SAN=[[2, b.example]]}, new={alias=b, SAN=[[2, other.example]]}" in caplog.text
    renewed = [made("a", "a.example", "more.example"), made("b", "b.example")]
    key_stores.put(store, *renewed)
    context = looked(listeners)
    assert context is not before
    assert isinstance(context, ssl.SSLContext)
    for entry, name in zip((*renewed, renewed[0]), ("a.example", "b.example", "more.example"), strict=True):
        assert Client().gets(context, name) == entry.chain[0]

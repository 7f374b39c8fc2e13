"""TLS listeners take a renewed key store while they run, if its certificate has the same names."""

import asyncio
import ssl
import time
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import PrivateFormat

from kbroker.config.broker import BrokerConfig
from kbroker.config.key_entries import MAX_KEYS
from kbroker.net.security import tls_listeners
from kbroker.net.security.tls_listeners import TlsListeners
from kbroker.protocol import slices
from kbroker.protocol.slices import Work
from tests import key_stores
from tests.key_stores import PASSWORD, made
from tests.net.security.tls_stores import config_of, looked, put
from tests.tls_client import Client


def change(listeners: TlsListeners, settings: dict[str, str]) -> None:
    async def run() -> None:
        listeners.change(settings)
        await listeners._reloads.wait(60)

    asyncio.run(run())


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
    change(listeners, {key: put(tmp_path / "other.pem", "other")})
    assert listeners._contexts["SSL"].context is before
    change(listeners, {key: put(tmp_path / "again.pem", "k")})
    assert listeners._contexts["SSL"].context is not before


def test_a_setting_of_another_subject_loads_no_store(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The first start sets min.insync.replicas."""
    caplog.set_level("INFO")
    listeners = TlsListeners(config_of(put(tmp_path / "k.pem", "k")))
    before = listeners._contexts["SSL"].context
    change(listeners, {"min.insync.replicas": "1"})
    assert listeners._contexts["SSL"].context is before
    assert caplog.text == ""


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


def test_a_store_of_very_many_keys_is_loaded_key_by_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each key is encrypted as keytool does it. All of them together take some 300 ms of CPU."""
    locked = PrivateFormat.PKCS12.encryption_builder().kdf_rounds(10_000).build(PASSWORD.encode())
    store, entries = tmp_path / "k.p12", [made(f"k{n}", f"{n}.example") for n in range(MAX_KEYS)]
    key_stores.put(store, *entries, encryption=locked)
    listeners = TlsListeners(BrokerConfig({"listeners": "SSL://:0", **key_stores.settings(store)}))
    before, spent = listeners._contexts["SSL"].context, [0]
    key_stores.put(store, *entries, encryption=locked)

    run_slice = Work.run_slice

    def timed(work: Work) -> object:
        began_ns = time.thread_time_ns()
        try:
            return run_slice(work)
        finally:
            spent.append(time.thread_time_ns() - began_ns)

    monkeypatch.setattr(Work, "run_slice", timed)
    monkeypatch.setattr(tls_listeners, "REST_S", 0)
    assert looked(listeners) is not before
    assert max(spent) < 0.2 * sum(spent)
    assert len(spent) > MAX_KEYS


def test_settings_that_change_during_a_reload_are_loaded_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, key = tmp_path / "k.p12", "listener.name.ssl.ssl.keystore.location"
    entries = [made("a", "a.example"), made("b", "b.example"), made("c", "c.example")]
    key_stores.put(store, *entries)
    listeners = TlsListeners(BrokerConfig({"listeners": "SSL://:0", **key_stores.settings(store)}))
    last = [made(each.alias, f"{each.alias}.example") for each in entries]
    other = key_stores.put(tmp_path / "other.p12", *last)
    key_stores.put(store, *entries)
    monkeypatch.setattr(slices, "SLICE_NS", 0)

    async def run() -> None:
        listeners._next_check_s = 0
        listeners._reload_changed()
        await asyncio.sleep(0.03)
        listeners.change({key: str(other)})
        await listeners._reloads.wait(60)

    asyncio.run(run())
    for entry in last:
        context = listeners._contexts["SSL"].context
        assert Client().gets(context, f"{entry.alias}.example") == entry.chain[0]

"""The sockets of the http process: addresses as the settings have them, failures that name them."""

import errno
import socket

import pytest

from kbroker.config.broker import BrokerConfig
from kbroker.supervisor.http_listeners import HttpListeners, listen, listen_or_fall_back, url


def test_nothing_means_no_socket() -> None:
    assert listen("") is None


@pytest.mark.parametrize("address", ["127.0.0.1:0", ":0"])
def test_port_0_takes_any_free_port_and_is_shown(address: str) -> None:
    listening = listen(address)
    assert listening is not None
    with listening:
        host, _, port = url(listening).removeprefix("http://").rpartition(":")
        socket.create_connection((host.strip("[]"), int(port)), timeout=60).close()


def test_a_taken_port_is_an_error_that_names_the_setting() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(
            OSError, match=rf"kbroker\.http\.listen=127\.0\.0\.1:{port}: Address already in use"
        ):
            listen(f"127.0.0.1:{port}")


def test_a_name_that_no_host_can_have_is_an_error_that_names_the_setting() -> None:
    with pytest.raises(OSError, match=r"kbroker\.http\.listen=a\.\.b:0: not a valid host name") as refused:
        listen("a..b:0")
    assert refused.value.errno == errno.EINVAL


def test_an_occupied_default_port_is_replaced_by_a_free_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        listening = listen_or_fall_back(f"127.0.0.1:{port}")
        assert listening is not None
        with listening:
            assert listening.getsockname()[0] == "127.0.0.1"
            assert listening.getsockname()[1] not in (0, port)
            assert f"{url(listening)}/metrics" in caplog.text
    with pytest.raises(OSError, match=r"kbroker\.http\.listen"):
        listen_or_fall_back("no.such.host.invalid:1")


@pytest.mark.parametrize(
    ("address", "settings", "is_served"),
    [
        ("127.0.0.1:0", {}, True),
        ("127.0.0.1:0", {"kbroker.console.enable": "false"}, False),
        (":0", {}, False),
        (":0", {"listeners": "SASL_PLAINTEXT://:0", "sasl.enabled.mechanisms": "SCRAM-SHA-512"}, True),
    ],
)
def test_the_console_is_named_where_it_is_served(
    address: str, settings: dict[str, str], is_served: bool
) -> None:
    config, _ = BrokerConfig.load({"log.dirs": "data", "kbroker.http.listen": address, **settings}, {})
    listeners = HttpListeners(config)
    listeners.open()
    assert listeners.metrics is not None
    where = url(listeners.metrics)
    console = f" console={where}/" if is_served else ""
    assert listeners.addresses() == f"metrics={where}/metrics{console}"
    listeners.close()


def test_the_start_says_why_the_console_and_the_registry_are_not_served(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = {
        "log.dirs": "data",
        "kbroker.http.listen": ":0",
        "kbroker.schema.registry.listen": ":0",
        "listeners": "SASL_SSL://:0",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.sasl_ssl.ssl.client.auth": "required",
    }
    listeners = HttpListeners(BrokerConfig.load(settings, {})[0])
    listeners.open()
    assert listeners.metrics is not None
    assert listeners.addresses() == f"metrics={url(listeners.metrics)}/metrics"
    why = "listeners require client certificates (ssl.client.auth): SASL_SSL"
    assert [record.getMessage() for record in caplog.records] == [
        f"the {name} is not served: {why}" for name in ("console", "schema registry")
    ]
    listeners.close()


def test_the_registry_has_its_own_socket_and_is_named() -> None:
    settings = {"kbroker.http.listen": "127.0.0.1:0", "kbroker.schema.registry.listen": "127.0.0.1:0"}
    listeners = HttpListeners(BrokerConfig.load({"log.dirs": "data", **settings}, {})[0])
    listeners.open()
    assert listeners.registry is not None
    assert listeners.addresses().endswith(f" registry={url(listeners.registry)}")
    assert len({each.getsockname() for each in listeners.sockets()}) == 2
    listeners.close()

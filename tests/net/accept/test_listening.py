"""Endpoints of all sites and listeners; an address in use is named."""

import errno
import socket
from typing import Any

import pytest

from kbroker.config.broker import BrokerConfig
from kbroker.config.listeners import Endpoint
from kbroker.net.accept.listening import endpoints, is_alone, listen


def _config(listeners: str, **more: str) -> BrokerConfig:
    return BrokerConfig.load({"listeners": listeners, **more}, {})[0]


def _first(config: BrokerConfig) -> Endpoint:
    return next(endpoints(config))[2]


def test_each_further_site_has_the_next_port() -> None:
    sites = {"log.dirs": "/a,/b", "kbroker.replica.sites": "/a;/b"}
    config = _config(
        "PLAINTEXT://127.0.0.1:28500,OTHER://127.0.0.1:28510",
        **{"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT", **sites},
    )
    found = [(site, endpoint.listener, at.port) for site, endpoint, at in endpoints(config)]
    assert found == [
        (0, "PLAINTEXT", 28500),
        (0, "OTHER", 28510),
        (1, "PLAINTEXT", 28501),
        (1, "OTHER", 28511),
    ]


def test_a_free_port_stays_free_on_every_site() -> None:
    sites = {"log.dirs": "/a,/b", "kbroker.replica.sites": "/a;/b"}
    assert [at.port for _, _, at in endpoints(_config("PLAINTEXT://127.0.0.1:0", **sites))] == [0, 0]


def test_an_address_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(OSError, match=f"PLAINTEXT://127.0.0.1:{port}: Address already in use") as refused:
            listen(_first(_config(f"PLAINTEXT://127.0.0.1:{port}")), 1)
    assert refused.value.errno == errno.EADDRINUSE


def test_a_port_that_the_user_may_not_take_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(socket.socket, "bind", refuse)
    endpoint = BrokerConfig({"listeners": "PLAINTEXT://127.0.0.1:80"}).listeners[0]
    with pytest.raises(
        PermissionError, match=r"PLAINTEXT://127.0.0.1:80: Permission denied; .*: set a higher one$"
    ):
        listen(endpoint, 1, True)


def test_a_listener_without_a_host_takes_ipv4_clients() -> None:
    with listen(_first(_config("PLAINTEXT://:0")), 1) as listening:
        assert not listening.getblocking()
        with socket.create_connection(("127.0.0.1", listening.getsockname()[1]), timeout=60):
            pass


def test_all_addresses_of_ipv6_take_ipv4_clients_as_in_java() -> None:
    with listen(_first(_config("PLAINTEXT://[::]:0")), 1) as listening:
        for host in ("127.0.0.1", "::1"):
            with socket.create_connection((host, listening.getsockname()[1]), timeout=60):
                pass


def test_listeners_of_ipv4_and_ipv6_share_a_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    protocols = {"listener.security.protocol.map": "IN:PLAINTEXT,OUT:PLAINTEXT"}
    config = _config(f"IN://[::]:{port},OUT://0.0.0.0:{port}", **protocols)
    sockets = [listen(at, 1, is_alone(config, endpoint)) for _, endpoint, at in endpoints(config)]
    assert [each.family for each in sockets] == [socket.AF_INET6, socket.AF_INET]
    for each in sockets:
        each.close()


@pytest.mark.parametrize(("addresses", "chosen"), [(["::1"], "::1"), (["::1", "127.0.0.1"], "127.0.0.1")])
def test_a_name_stands_for_an_address_of_ipv4_if_it_has_one(
    addresses: list[str], chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = socket.getaddrinfo

    def of_name(host: str, *args: Any, **named: Any) -> list[Any]:
        hosts = addresses if host == "broker.lan" else [host]
        return [found for each in hosts for found in real(each, *args, **named)]

    monkeypatch.setattr(socket, "getaddrinfo", of_name)
    with listen(_first(_config("PLAINTEXT://broker.lan:0")), 1) as listening:
        assert listening.getsockname()[0] == chosen


@pytest.mark.parametrize(
    ("host", "why"),
    [
        ("no-such-host.invalid", "Name or service not known"),
        ("broker..lan", "not a valid host name"),
        ("b" * 64, "not a valid host name"),
    ],
)
def test_a_name_without_an_address_is_named(host: str, why: str) -> None:
    with pytest.raises(OSError, match=f"PLAINTEXT://{host}:0: {why}"):
        listen(_first(_config(f"PLAINTEXT://{host}:0")), 1)

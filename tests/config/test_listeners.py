"""Listener entries become endpoints, or an error that shows the entry."""

import pytest

from kbroker.config.listeners import (
    Endpoint,
    SecurityProtocol,
    check_distinct,
    listener_name,
    parse_listeners,
    parse_protocol_map,
)
from kbroker.config.setting import ConfigError

PROTOCOLS = {"PLAINTEXT": SecurityProtocol.PLAINTEXT, "SECURE": SecurityProtocol.SASL_SSL}


@pytest.mark.parametrize(
    ("entry", "host", "port"),
    [
        ("PLAINTEXT://:9092", "", 9092),
        ("PLAINTEXT://0.0.0.0:0", "0.0.0.0", 0),
        ("plaintext://localhost:9092", "localhost", 9092),
        ("PLAINTEXT://[::1]:9092", "::1", 9092),
        ("PLAINTEXT://[fe80::b1da:69ca:57f7:63d8%3]:1", "fe80::b1da:69ca:57f7:63d8%3", 1),
        (" PLAINTEXT://my_host-1.example:65535 ", "my_host-1.example", 65535),
    ],
)
def test_an_entry_is_name_host_and_port(entry: str, host: str, port: int) -> None:
    assert parse_listeners([entry], PROTOCOLS) == (
        Endpoint("PLAINTEXT", SecurityProtocol.PLAINTEXT, host, port),
    )


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("9092", "Unable to parse 9092 to a broker endpoint"),
        (f"PLAINTEXT://x:{'9' * 5000}", f"Unable to parse PLAINTEXT://x:{'9' * 5000} to a broker endpoint"),
        ("PLAINTEXT://host", "Unable to parse PLAINTEXT://host to a broker endpoint"),
        ("://host:1", "Unable to parse ://host:1 to a broker endpoint"),
        ("PLAINTEXT://::1:9092", "Unable to parse PLAINTEXT://::1:9092 to a broker endpoint"),
        ("FOO://x:1", "No security protocol defined for listener FOO"),
        ("PLAINTEXT://x:65536", "Unable to parse PLAINTEXT://x:65536 to a broker endpoint: port must be 0 to 65535"),
    ],
)  # fmt: skip
def test_a_bad_entry_is_shown_with_all_of_them(entry: str, why: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_listeners(["PLAINTEXT://a:1", entry], PROTOCOLS)
    assert str(error.value) == f"Error creating broker listeners from '[PLAINTEXT://a:1, {entry}]': {why}"


def test_an_endpoint_prints_as_it_is_written() -> None:
    for entry in ("SECURE://[::1]:9092", "SECURE://h:1", "SECURE://:0"):
        assert str(parse_listeners([entry], PROTOCOLS)[0]) == entry


def test_protocols_say_what_they_need() -> None:
    assert [p.name for p in SecurityProtocol if p.tls] == ["SSL", "SASL_SSL"]
    assert [p.name for p in SecurityProtocol if p.sasl] == ["SASL_PLAINTEXT", "SASL_SSL"]


def test_the_protocol_map_is_read_in_any_case() -> None:
    assert parse_protocol_map("k", " internal:plaintext , SECURE:SASL_SSL,") == {
        "INTERNAL": SecurityProtocol.PLAINTEXT,
        "SECURE": SecurityProtocol.SASL_SSL,
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("A", "Error parsing configuration property 'k': 'A' is not NAME:PROTOCOL"),
        (":SSL", "Error parsing configuration property 'k': ':SSL' is not NAME:PROTOCOL"),
        ("A:TLS", "Invalid security protocol `TLS` defined in k"),
        ("A:SSL,a:SSL", "Error parsing configuration property 'k': A is mapped twice"),
    ],
)
def test_a_bad_protocol_map_is_refused(text: str, why: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_protocol_map("k", text)
    assert str(error.value) == why


def test_names_and_ports_must_differ() -> None:
    same_name = parse_listeners(["PLAINTEXT://a:1", "PLAINTEXT://a:2"], PROTOCOLS)
    with pytest.raises(ConfigError, match="different name, listeners: PLAINTEXT://a:1,PLAINTEXT://a:2"):
        check_distinct("listeners", same_name, ports=True)
    same_port = parse_listeners(["PLAINTEXT://a:1", "SECURE://b:1"], PROTOCOLS)
    with pytest.raises(ConfigError, match="different port"):
        check_distinct("listeners", same_port, ports=True)
    check_distinct("advertised.listeners", same_port, ports=False)


def test_any_number_of_listeners_may_take_a_free_port() -> None:
    check_distinct("k", parse_listeners(["PLAINTEXT://a:0", "SECURE://a:0"], PROTOCOLS), ports=True)


def test_one_ipv4_and_one_ipv6_address_may_share_a_port() -> None:
    both = parse_listeners(["PLAINTEXT://127.0.0.1:9092", "SECURE://[::1]:9092"], PROTOCOLS)
    check_distinct("k", both, ports=True)
    twice = parse_listeners(["PLAINTEXT://[::2]:9092", "SECURE://[::1]:9092"], PROTOCOLS)
    with pytest.raises(ConfigError, match="different port"):
        check_distinct("k", twice, ports=True)


def test_the_name_is_known_before_the_rest_is_read() -> None:
    assert listener_name("Controller://x:1") == "CONTROLLER"


@pytest.mark.parametrize(
    ("hosts", "allowed"),
    [
        (("127.0.0.1", "[::1]"), True),
        (("[::1]", "127.0.0.1"), True),
        (("127.0.0.1", "10.0.0.1"), False),
        (("127.0.0.1", "localhost"), False),
        (("", "[::1]"), False),
        (("", "127.0.0.1"), False),
        (("127.0.0.1.x", "[::1]"), False),
        (("127.0.0.1", "[::1]", "[::2]"), False),
        (("127.0.0.1", "10.0.0.1", "[::1]"), False),
    ],
)
def test_a_port_is_shared_by_exactly_two_families(hosts: tuple[str, ...], allowed: bool) -> None:
    names = {f"L{number}": SecurityProtocol.PLAINTEXT for number in range(len(hosts))}
    entries = [f"{name}://{host}:9092" for name, host in zip(names, hosts, strict=True)]
    endpoints = parse_listeners(entries, names)
    if allowed:
        check_distinct("k", endpoints, ports=True)
    else:
        with pytest.raises(ConfigError, match="different port"):
            check_distinct("k", endpoints, ports=True)
